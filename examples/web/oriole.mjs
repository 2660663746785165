// Oriole in WebAssembly, for browsers, workers and Node. crates/wasm/src/exports.rs describes the functions of the module.
//
//   const oriole = await Oriole.load(fetch("oriole.wasm"));
//   const { report, output } = oriole.compile(ptx, { arch: "sm_90a" });   // output: a cubin, as Uint8Array
//   const text = oriole.disassemble(output).text;

// An instance that has used this many bytes of memory is replaced before the next call, because memory of an instance is never returned.
const MEMORY_LIMIT = 512 * 1024 * 1024;

export class InternalError extends Error {}

export class Oriole {
  #module;
  #exports;

  // `source` is a Response (or a promise of one), or the bytes of the module.
  static async load(source) {
    const given = await source;
    const bytes = typeof Response !== "undefined" && given instanceof Response ? await given.arrayBuffer() : given;
    const oriole = new Oriole();
    oriole.#module = await WebAssembly.compile(bytes);
    await oriole.#restart();
    return oriole;
  }

  async #restart() {
    this.#exports = (await WebAssembly.instantiate(this.#module, {})).exports;
  }

  // Makes the module ready for the next call. Necessary after an InternalError; otherwise it bounds the memory.
  async refresh() {
    if (!this.#exports || this.#exports.memory.buffer.byteLength > MEMORY_LIMIT) await this.#restart();
  }

  // The names of all targets.
  targets() {
    return this.#call("oriole_targets", new Uint8Array(), {}).text.split("\n");
  }

  check(ptx, settings = {}) {
    return this.#call("oriole_check", encode(ptx), settings);
  }

  compile(ptx, settings = {}) {
    return this.#call("oriole_compile", encode(ptx), settings);
  }

  disassemble(cubin, settings = {}) {
    return this.#call("oriole_disassemble", cubin, settings);
  }

  explain(ptx, settings = {}) {
    return this.#call("oriole_explain", encode(ptx), settings);
  }

  // Returns { report, output, text }; `text` decodes the output.
  #call(name, input, settings) {
    const exports = this.#exports;
    if (!exports) throw new InternalError("the module stopped after an internal error; call refresh()");
    write(exports, exports.oriole_input(input.length), input);
    const json = encode(JSON.stringify(settings));
    write(exports, exports.oriole_settings(json.length), json);
    try {
      exports[name]();
    } catch (error) {
      this.#exports = undefined;
      throw new InternalError(reason(exports, error));
    }
    const output = read(exports, exports.oriole_output(), exports.oriole_output_length());
    const report = JSON.parse(decode(read(exports, exports.oriole_report(), exports.oriole_report_length())));
    return { report, output, get text() { return decode(output); } };
  }
}

// What an exception of the module means. A panic leaves its message in the report; a full stack leaves nothing.
function reason(exports, error) {
  if (error instanceof RangeError) return "the input is nested too deeply for the stack of this browser";
  try {
    const report = JSON.parse(decode(read(exports, exports.oriole_report(), exports.oriole_report_length())));
    return report.panic ?? String(error);
  } catch {
    return String(error);
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function encode(text) {
  return typeof text === "string" ? encoder.encode(text) : text;
}

function decode(bytes) {
  return decoder.decode(bytes);
}

function write(exports, place, bytes) {
  new Uint8Array(exports.memory.buffer, place, bytes.length).set(bytes);
}

function read(exports, place, length) {
  return new Uint8Array(exports.memory.buffer, place, length).slice();
}
