// @ts-check
/** The vectors as files. */
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = new URL("../../../testdata/vectors/", import.meta.url);

/** @returns {Map<string, any>} by path */
export function readVectors() {
  const names = readdirSync(fileURLToPath(folder), { recursive: true }).map((name) => String(name).replaceAll("\\", "/"));
  return new Map(names.filter((n) => n.endsWith(".json")).map((n) => [n, JSON.parse(readFileSync(new URL(n, folder), "utf8"))]));
}
