// @ts-check
/** Runs all vectors in a runtime that has no test runner of Node's. */
import { readVectors } from "./files.js";
import { runVectors } from "./vectors.js";

const { count, wrong } = await runVectors(readVectors());
for (const line of wrong) console.log(line);
console.log(`${count} vectors, ${wrong.length} wrong`);
if (wrong.length) throw new Error("the vectors do not hold");
