"""Valid TOML texts, by what is odd about each, and digits that are too many."""

KEYS = {
    "bare": "a = 1\nB-2 = 2\n_ = 3\n-=4\n3.14 = 5\n1234=6\n",
    "quoted": '"a b" = 1\n\'c d\' = 2\n"ä漢😀" = 3\n\'\' . "" = 4\n',
    "empty": "\"\" = 1\n[a]\n\"\" = 2\nx.'' = 3\n[b]\n''.y = 4\n",
    "empty-header": '["".""]\n"" = 1\n[""]\nx."" = 2\n',
    "escapes": '"a\\tb" = 1\n"q\\"q" = 2\n"\\u00e4\\U0001F600" = 3\n"\\\\" = 4\n',
    "literal-escapes": "'a\\tb' = 1\n'\\' = 2\n'\"' = 3\n\"'\" = 4\n",
    "signs-in-quotes": (
        "\"a.b\" = 1\n'[c]' = 2\n\"#\" = 3\n'=' = 4\n\"a=b#c\" . '.]' = 5\n"
        "[\"x.y\".'[z]'.\"]\"]\n\"#=\" = 6\n[['##']]\n'=' = 7\n"
    ),
    "dotted": "a.b.c = 1\na.b.d = 2\na . e\t.  f = 3\na.\"b\".'g' = 4\n",
    "dotted-repeats": "a.a.a = 1\na.a.b.a = 2\n[b.b]\nb.b = 3\n[b]\na = 4\n",
    "dotted-in-tables": "[a]\nb.c = 1\nb.d.e = 2\n[a.f]\ng.h = 3\n",
    "number-like": '1.2 = 1\n1e5 = 2\ntrue = 3\ninf = 4\n2024-05-01 = 5\n"1.2" = 6\n',
    "spaces": " a = 1\n\tb\t=\t2 \n  c  .  d  =  3\t# x\n[ t . u ] # y\n\ta=1\n",
    "tight": "a=1\nb=[1,2]\nc={d=1,e.f=2}\n[g]\nh=1\n[[i]]\nj=1",
}

TABLES = {
    "tables": "[a]\nx = 1\n[a.b]\nx = 2\n[c.d.e]\n[c.d]\nx = 3\n[c]\nx = 4\n",
    "empty-tables": "[a]\n[b]\n[c.d]\n",
    "super-table-after": "[a.b.c]\nx = 1\n[a]\nb2.y = 2\n[a.b]\nz = 3\n",
    "root-then-tables": 'a = 1\n[b]\nd = 2\n[b.a]\na = 3\n["b"."c"]\na = 4\n',
    "array-of-tables": "[[a]]\nx = 1\n[[a]]\n[[a]]\nx = 3\ny.z = 4\n",
    "nested-arrays-of-tables": (
        "[[a]]\nx = 1\n[[a.b]]\ny = 1\n[[a.b]]\ny = 2\n[a.b.c]\nz = 1\n"
        "[[a]]\n[[a.b]]\ny = 3\n[a.d]\nw = 1\n[[a.d.e]]\nv = 1\n"
    ),
    "array-in-implicit-table": "[[a.b.c]]\nx = 1\n[[a.b.c]]\nx = 2\n[a.b]\ny = 3\n",
    "array-of-tables-then-super": "[[a.b]]\nx = 1\n[a]\ny = 2\n[[c]]\n[c.d]\n[[c]]\n",
    "quoted-arrays-of-tables": "[['a.b']]\nx = 1\n[[ 'a.b' . \"\" ]]\ny = 2\n",
    "same-names": "[a]\nb = 1\n[a.a]\na.a = 2\n[b]\nb = {b = [{b = 2}]}\n[[c]]\nc = 1",
}

CONTAINERS = {
    "arrays": 'a = []\nb = [ ]\nc = [1]\nd = [1,]\ne = [ 1 , "b" , [ ] , ]\n',
    "array-of-arrays": "a = [[], [[]], [[1, 2], [3]], [[[4],],],]\n",
    "multi-line-array": (
        "a = [\n  1, # one ]\n  # two, 2,\n\n  'x # y', # \"\n  [\n  3\n  ,\n 4\n ]\n"
        "  ,\n] # end\nb = [\n]\nc = [ # [\n# ]\n]\n"
    ),
    "mixed-array": "a = [1, 1.0, true, '1', 1979-05-27, [1], {x = 1}, -0.0, nan]\n",
    "array-of-inline-tables": "a = [{x = 1}, {}, {x.y = 2, z = [{w = 3}]},\n{ }]\n",
    "inline-tables": (
        "a = {}\nb = { }\nc = {x = 1}\nd = { x = 1 , y = '}' , z = \"{\" }\n"
        "e = {x = {y = {z = {}}}, 'q.r' = 1, \"\" = 2}\n"
    ),
    "inline-dotted": "a = {b.c = 1, b.d = {e.f = 2}, 'g'.\"h\".i = []}\n",
    "inline-multi-line-values": (
        "a = {b = [\n 1, # }\n 2\n], c = \"\"\"\n}\n\"\"\", d = '''\n,'''}\n"
    ),
    "no-space": "a=[1,-2,+3,0x4,'5',\"6\",true,1e1,07:32:00,{b=1},{c='}'}]\n",
    "value-before-comment": "a = 1# x\nb = true# x\nc = 'x'# y\nd = [1# x\n]# y\n",
}

STRINGS = {
    "basic": r'a = ""' + "\n" + r'b = "x \" # [ ] { } = , . \\"' + "\n"
    r'c = "\b\t\n\f\r\"\\ \u00e9 \U0001F600"' + "\n" + 'd = "äöü 漢字 😀"\n',
    "backslashes": r'a = "\\"' + "\n" + r'b = "\\\\"' + "\n" + r'c = "\\\""' + "\n",
    "literal": "a = ''\nb = 'C:\\x\\'\nc = '\" # ]'\nd = '\t'\n",
    "quotes-in-other-kind": "a = \"'\"\nb = '\"'\nc = \"''' '\"\nd = '\"\"\"'\n",
    "long-basic": 'a = """"""\nb = """x"""\nc = """\nx\n"""\nd = """ # " \'\'\' ] """',
    "long-basic-quotes": (
        'a = """"a""""\nb = """""a"""""\nc = """a "" b " c"""\nd = """"\nx"""\n'
        'e = """\\""""\nf = """\\"\\"\\""""\ng = """"""""\nh = """"""" # x\n'
        'i = ["""a"""", """""", """"b"""]\nj = """a\\\\"""\nk = """\\\\""""\n'
    ),
    "long-basic-continued": (
        'a = """x \\\n   y"""\nb = """\\\n\n  \t x \\   \n\n y\\\n"""\nc = """\\\n"""\n'
        'd = """\\\\\n"""\n'
    ),
    "long-literal": "a = ''''''\nb = '''x'''\nc = '''\nx\n'''\nd = ''' # ' \"\"\" ]'''",
    "long-literal-quotes": (
        "a = ''''a''''\nb = '''''a'''''\nc = '''a '' b ' c'''\nd = ''''\nx'''\n"
        "e = '''\\'''\nf = ''''''''\ng = ''''''' # x\nh = [''''b''', '''a'''']\n"
    ),
    "signs": 'a = \'# no\'\nb = "[no]"\nc = """\n[no]\nx = 1 # no\n"""\nd = \'=\'\n',
    "unicode": 'a = "\u2028\u0085\ufeff\u202e"\n"\ufeff" = "\u200b"\n# \u2028 \u0085',
    "del-and-wide": 'a = "\\u007f\U0010ffff"\nb = "e\u0301"\n',
}

SCALARS = {
    "integers": "a = 0\nb = +0\nc = -0\nd = 1_000\ne = -17\nf = +99\ng = 5_3_4\n",
    "big-integers": f"a = {'9' * 4000}\nb = -{2**64}\nc = 0x{'f' * 5000}\n",
    "bases": "a = 0xDEADbeef\nb = 0xdead_beef\nc = 0o01234567\nd = 0b1101_0110\n",
    "floats": "a = 1.0\nb = 3.1415\nc = -0.01\nd = -0.0\ne = +1.5\nf = 9_2.7_1\n",
    "exponents": "a = 5e+22\nb = 1e06\nc = -2E-2\nd = 6.626e-34\ne = 1E5\nf = 1e9_9\n",
    "inf-nan": "a = inf\nb = +inf\nc = -inf\nd = nan\ne = +nan\nf = [-nan, inf]\n",
    "underflow": "a = 1e-999\nb = 1e999\nc = 0e0\n",
    "booleans": "a = true\nb = false\nc = [true,false]\nd = {e=true}\n",
    "offset-date-times": (
        "a = 1979-05-27T07:32:00Z\nb = 1979-05-27T00:32:00-07:00\n"
        "c = 1979-05-27T00:32:00.999999+05:30\nd = 1979-05-27 07:32:00Z\n"
        "e = 1979-05-27t07:32:00z\n"
        "f = [1979-05-27 07:32:00+00:00,1979-05-27 07:32:00Z]\n"
    ),
    "local-date-times": (
        "a = 1979-05-27T07:32:00\nb = 1979-05-27 00:32:00.5\n"
        "c = 1979-05-27 07:32:00 # x\n"
        "d = {e=1979-05-27 07:32:00,f=1979-05-27 07:32:00}\n"
    ),
    "dates": "a = 1979-05-27\nb = 1979-05-27 # 07:32:00\nc = [1979-05-27 ,2000-01-01]",
    "date-at-line-end": "a = 1979-05-27 \nb = 1979-05-27\t\nc = 2000-01-01",
    "times": "a = 07:32:00\nb = 00:32:00.999999\nc = 07:32:00.1234567\nd = [07:32:00]",
}

FORMS = {
    "empty": "",
    "blank": " \t\n\n  \n",
    "comment": "# nothing but this",
    "comments": "# a\n  # b = 1\n\t#[c]\n#\n",
    "comments-everywhere": (
        "# top\na = 1 # [x]\n# b = 2\n[c] # d\n# e\n[[f]] # g\n\n# h = '''\ni = [ # j\n"
        "# k\n1 # l\n, # m\n] # n\n# o"
    ),
    "no-final-newline": "a = 1\n[b]\nc = 'x'",
    "no-final-newline-header": "a = 1\n[b]",
    "no-final-newline-array": "a = [\n1\n]",
    "carriage-returns": "a = 1\r\n# x\r\n[b]\r\nc = [\r\n1,\r\n2 # y\r\n]\r\n",
    "carriage-returns-in-strings": (
        'a = """\r\nx\r\ny\\\r\n  z\r\n"""\r\n'
        "b = '''\r\nx\r\n'''\r\nc = {d = 1}\r\n"
    ),
    "mixed-line-ends": 'a = 1\r\nb = 2\nc = """\nx\r\ny"""\r\n',
    "non-ascii": "# äöü\n'漢字' = '😀' # 😀\n[\"😀\".'ä']\nx = [ '漢', 1 ]\n",
}

VALID = {
    f"{kind}-{name}": text
    for kind, texts in {
        "keys": KEYS,
        "tables": TABLES,
        "containers": CONTAINERS,
        "strings": STRINGS,
        "scalars": SCALARS,
        "forms": FORMS,
    }.items()
    for name, text in texts.items()
}

DIGITS = "1" * 6000
"""More than Python reads of a decimal integer."""
