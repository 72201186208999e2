"""Work that is shared out over processes."""

import os
import signal

import pytest

from fp8tune.lint.selection import Problem
from fp8tune.lint.shares import shared_out

HERE = os.getpid()


def test_shares_come_back_in_order_from_processes_of_their_own():
    made = shared_out(lambda share: (share, os.getpid()), ["a", "b", "c"])
    assert [share for share, _ in made] == ["a", "b", "c"]
    assert made[0][1] == HERE
    assert len({process for _, process in made}) == 3


def test_more_than_a_pipe_holds():
    assert shared_out(lambda share: share * 10**6, ["a", "b"])[1] == "b" * 10**6


@pytest.mark.parametrize("fails", ["a", "c"])
def test_an_error_is_raised_here_and_no_process_is_left(fails):
    def work(share):
        if share == fails:
            raise Problem(f"no {share}")

    with pytest.raises(Problem, match=f"no {fails}"):
        shared_out(work, ["a", "b", "c"])
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_process_that_is_killed_is_told():
    def work(_):
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(Problem, match="ended before its work was done"):
        shared_out(work, ["a", "b"])
