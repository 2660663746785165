// Runs the compiler beside the page, so that the page stays responsive. A message is { number, task, ptx, settings }.
import { Oriole } from "./oriole.mjs";

const loading = Oriole.load(fetch("oriole.wasm"));

const TASKS = {
  targets: (oriole) => ({ targets: oriole.targets() }),
  check: (oriole, ptx, settings) => ({ report: oriole.check(ptx, settings).report }),
  compile(oriole, ptx, { control, ...settings }) {
    const compiled = oriole.compile(ptx, settings);
    const listing = compiled.report.ok ? oriole.disassemble(compiled.output, { control }).text : "";
    return { report: compiled.report, cubin: compiled.output, listing };
  },
  explain(oriole, ptx, { control, ...settings }) {
    const { report, text } = oriole.explain(ptx, { ...settings, format: "html" });
    return { report, page: text };
  },
};

onmessage = async ({ data: { number, task, ptx, settings } }) => {
  let answer;
  try {
    const oriole = await loading;
    await oriole.refresh();
    const start = performance.now();
    answer = TASKS[task](oriole, ptx, settings);
    answer.milliseconds = performance.now() - start;
  } catch (error) {
    answer = { failure: error.message };
  }
  postMessage({ number, ...answer });
};
