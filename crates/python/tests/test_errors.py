import pickle

import pytest

import oriole

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
VALID = HEADER + ".visible .entry k() { ret; }\n"


def test_an_error_has_code_line_and_column(saxpy):
    text = saxpy.read_text().replace("ld.global.nc.f32", "ld.golbal.nc.f32")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if ".golbal" in line)
    column = text.splitlines()[line - 1].index(".golbal") + 1
    with pytest.raises(oriole.CompileError) as caught:
        oriole.compile(text)
    (error,) = caught.value.diagnostics
    assert (error.severity, error.code, error.line, error.column) == ("error", "E0702", line, column)
    assert (error.end_line, error.end_column) == (line, column + len(".golbal"))
    assert ".golbal" in error.message and error.help == "did you mean `.global`?"
    assert f"<ptx>:{line}:{column}" in str(caught.value) and "ld.golbal.nc.f32" in str(caught.value)
    assert str(error).startswith(f"{line}:{column}: error[E0702]: ")
    assert oriole.check(text) == [error]


def test_all_errors_are_reported():
    text = HEADER + ".visible .entry k() {\n.reg .b32 %r<3>;\nadd.s32 %r1, %r2, %x;\nsub.q32 %r1, %r2, 1;\nret;\n}\n"
    with pytest.raises(oriole.CompileError) as caught:
        oriole.compile(text)
    assert [error.line for error in caught.value.errors] == [6, 7]
    assert [error.line for error in oriole.check(text, error_limit=1)] == [6]


def test_valid_text_has_no_diagnostics():
    assert oriole.check(VALID) == []


def test_names_of_files_are_in_messages(tmp_path):
    path = tmp_path / "bad.ptx"
    path.write_text(VALID.replace("ret;", "return;"))
    with pytest.raises(oriole.CompileError, match=r"bad\.ptx:4:"):
        oriole.compile(path)


def test_what_is_not_supported_is_an_error_with_a_line():
    # No machine has atomic operations on local memory; PTX does not forbid them.
    atomic = "atom.add.f32 %f, [l], %f;"
    text = f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() {{ .reg .f32 %f; .local .b32 l;\n{atomic}\nret;\n}}\n"
    assert not [diagnostic for diagnostic in oriole.check(text) if diagnostic.is_error]
    with pytest.raises(oriole.CompileError) as caught:
        oriole.compile(text)
    (error,) = caught.value.errors
    assert error.line == 5 and "local memory" in error.message and "not supported" in error.message


def test_a_module_for_another_target_is_an_error_without_a_line():
    with pytest.raises(oriole.CompileError) as caught:
        oriole.compile(VALID.replace("sm_80", "sm_90a"), "sm_80")
    (error,) = caught.value.errors
    assert error.line is None and "sm_90a" in error.message
    assert "sm_90a" in str(caught.value)


def test_errors_can_be_pickled():
    with pytest.raises(oriole.CompileError) as caught:
        oriole.compile("nonsense")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.diagnostics == caught.value.diagnostics and str(again) == str(caught.value)
    assert isinstance(again, oriole.OrioleError)


@pytest.mark.parametrize("value", [None, 7, 1.5, ["text"], object()])
def test_wrong_types_of_inputs(value):
    for function in [oriole.compile, oriole.check, oriole.disassemble, oriole.verify, oriole.explain, oriole.Cubin]:
        with pytest.raises(TypeError):
            function(value)


@pytest.mark.parametrize(
    "keywords",
    [
        {"arch": 90},
        {"arch": b"sm_90"},
        {"opt_level": "3"},
        {"opt_level": None},
        {"opt_level": 2.5},
        {"fmad": "yes"},
        {"maxrregcount": "32"},
        {"entries": "k"},
        {"entries": [1]},
        {"entries": 5},
        {"verify": 3},
        {"no_such_option": True},
    ],
)
def test_wrong_types_of_options(keywords):
    with pytest.raises(TypeError):
        oriole.compile(VALID, **keywords)


@pytest.mark.parametrize(
    "keywords, message",
    [
        ({"arch": "sm_1"}, "sm_1 is not a target"),
        ({"arch": ""}, "is not a target"),
        ({"arch": "sm_90\0"}, "is not a target"),
        ({"opt_level": 4}, "opt_level must be"),
        ({"opt_level": -1}, "opt_level must be"),
        ({"maxrregcount": 0}, "maxrregcount must be"),
        ({"maxrregcount": -5}, "maxrregcount must be"),
        ({"maxrregcount": 1 << 40}, "maxrregcount must be"),
        ({"entries": ["missing"]}, "there is no kernel `missing`; the module has k"),
    ],
)
def test_wrong_values_of_options(keywords, message):
    with pytest.raises(ValueError, match=message):
        oriole.compile(VALID, **keywords)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"text", VALID.encode()])
def test_data_that_is_no_cubin(data):
    for function in [oriole.disassemble, oriole.verify, oriole.Cubin]:
        with pytest.raises(ValueError):
            function(data)


def test_damaged_cubins_raise_no_other_error():
    data = oriole.compile(VALID).data
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        for function in [oriole.disassemble, oriole.verify, oriole.explain]:
            try:
                function(bytes(damaged))
            except (ValueError, oriole.CompileError):
                pass


def test_missing_files(tmp_path):
    for function in [oriole.compile, oriole.check, oriole.disassemble, oriole.explain]:
        with pytest.raises(FileNotFoundError):
            function(tmp_path / "missing")


def test_error_limit_must_be_positive():
    with pytest.raises(ValueError):
        oriole.check(VALID, error_limit=0)


def test_a_cubin_for_another_target():
    data = oriole.compile(VALID, "sm_90a").data
    assert oriole.Cubin(data, "sm_90a").arch == "sm_90a"
    with pytest.raises(ValueError, match="there is no cubin for sm_80 here"):
        oriole.Cubin(data, "sm_80")
