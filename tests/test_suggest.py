"""Did you mean ...?"""

from fp8tune.suggest import closest
from tests.each import each

NAMES = ["batch_size", "seq_len", "max_steps", "FP8101", "world-size", "Compile"]


@each(
    ("word", "meant"),
    [
        ("batch_size", "batch_size"),
        (" batch_size ", "batch_size"),
        ("batchsize", "batch_size"),
        ("bacth_size", "batch_size"),
        ("seqlen", "seq_len"),
        ("fp8101", "FP8101"),
        ("compile", "Compile"),
        ("", ""),
        ("zzz", ""),
        ("b" * 101, ""),
        ("batch_size" * 50, ""),
    ],
)
def test_closest(word, meant):
    assert closest(word, NAMES) == meant


@each(
    ("word", "name", "meant"),
    [
        ("mup_scale", "mscale", ""),
        ("use_mpi", "use_mup", ""),
        ("microbatch_size", "micro_batch_size", "micro_batch_size"),
        ("max_seq_length", "max_seq_len", "max_seq_len"),
    ],
)
def test_names_of_other_words_are_no_slips(word, name, meant):
    assert closest(word, [name]) == meant
