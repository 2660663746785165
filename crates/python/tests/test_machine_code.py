import json
import struct
import subprocess

import pytest

import oriole


@pytest.fixture
def cubin(block_sum):
    return oriole.compile(block_sum, "sm_90a")


def oriole_output(*arguments, status=0):
    result = subprocess.run([oriole.oriole_path(), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert result.returncode == status, result.stderr
    return result.stdout


@pytest.fixture
def file(tmp_path, cubin):
    cubin.write(tmp_path / "block_sum.cubin")
    return tmp_path / "block_sum.cubin"


def test_disassembly_is_that_of_the_command_line(cubin, file):
    text = oriole.disassemble(cubin)
    assert text == oriole_output("disasm", file) == oriole.disassemble(file) == oriole.disassemble(cubin.data) == cubin.disassemble()
    assert ".text.block_sum:" in text and "EXIT" in text
    assert oriole.disassemble(cubin, control=True) == oriole_output("disasm", "--control", file)
    assert oriole.disassemble(cubin, kernel="block_sum") == oriole_output("disasm", "--kernel", "block_sum", file)


def test_a_function_that_is_not_there(cubin):
    with pytest.raises(ValueError, match="no kernel or function missing"):
        oriole.disassemble(cubin, kernel="missing")
    with pytest.raises(ValueError):
        oriole.explain(cubin, kernels=["missing"])


def test_compiled_code_has_no_findings(example):
    for level in range(4):
        assert oriole.verify(oriole.compile(example, "sm_90a", level)) == []


def code_place(cubin, section):
    """Returns offset and size of a section in the file, from the section headers of ELF."""
    data = cubin.data
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + size * number) for number in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if data[strings + name : data.index(b"\0", strings + name)] == section:
            return offset, length
    raise AssertionError("there is no such section")


def without_waits(cubin):
    """Clears the waits of all instructions: bits 116 to 121 of each word say for which scoreboards an instruction waits."""
    offset, length = code_place(cubin, b".text.block_sum")
    assert length == cubin.kernels["block_sum"].code_bytes
    data = bytearray(cubin.data)
    for start in range(offset, offset + length, 16):
        word = int.from_bytes(data[start : start + 16], "little") & ~(0x3F << 116)
        data[start : start + 16] = word.to_bytes(16, "little")
    return bytes(data)


def test_code_without_waits_has_findings(cubin, tmp_path):
    damaged = without_waits(cubin)
    findings = oriole.verify(damaged)
    assert findings and all(finding.is_hazard and finding.section == ".text.block_sum" for finding in findings)
    assert any(finding.verifier == "completeness" and finding.instruction and finding.first_address is not None for finding in findings)
    assert all(finding.address % 16 == 0 for finding in findings if finding.address is not None)
    path = tmp_path / "damaged.cubin"
    path.write_bytes(damaged)
    lines = [json.loads(line) for line in oriole_output("verify", "--json", path, status=1).splitlines()]
    assert [(line["verifier"], line["kind"], line["problem"], line.get("second")) for line in lines] == [
        (finding.verifier, finding.kind, finding.message, finding.address) for finding in findings
    ]
    only = oriole.verify(damaged, only=["completeness"])
    assert only == [finding for finding in findings if finding.verifier == "completeness"]
    assert oriole.verify(damaged, only=["bounds"]) == []


def test_unknown_verifiers(cubin):
    with pytest.raises(ValueError, match="there is no verifier none"):
        oriole.verify(cubin, only=["none"])
    with pytest.raises(TypeError):
        oriole.verify(cubin, only="bounds")


def test_explanation_of_ptx(block_sum):
    explanation = oriole.explain(block_sum, "sm_90a")
    expected = json.loads(oriole_output("explain", block_sum, "--arch", "sm_90a", "--json"))
    assert explanation == expected
    assert explanation["schema"] == "oriole-explain/1"
    (function,) = explanation["functions"]
    for instruction in function["instructions"]:
        assert sum(cause["cycles"] for cause in instruction["stall_causes"]) == instruction["stall"]


def test_explanation_of_a_cubin(cubin, file):
    explanation = oriole.explain(cubin)
    assert explanation == {**json.loads(oriole_output("explain", file, "--json")), "input": "<cubin>"}
    assert explanation == oriole.explain(cubin.data) == cubin.explain()
    assert oriole.explain(file)["functions"] == explanation["functions"]


def test_explanation_as_text_and_page(block_sum, cubin):
    text = oriole.explain_text(block_sum, "sm_90a")
    assert text == oriole_output("explain", block_sum, "--arch", "sm_90a")
    summary = oriole.explain_text(block_sum, "sm_90a", summary=True)
    assert len(summary) < len(text) and "block_sum (kernel, sm_90a, -O3)" in summary
    assert oriole.explain_html(cubin).startswith("<!")


def test_explain_reports_errors_of_ptx():
    with pytest.raises(oriole.CompileError):
        oriole.explain("nonsense")
