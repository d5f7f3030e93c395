// Undo what `arl agent listen` asks for: one call on standard input, one report
// on standard output.
//
//     arl agent listen --key worker.key --hooks drain,restore,compensate,cancel,probe \
//         --idempotent drain,restore,cancel --exec node -- undo.mjs WORK
//
// WORK holds the agent's state (state.json), its checkpoints (checkpoints/ID.json),
// the orders that stand (orders/ID.json) and those that were cancelled
// (cancelled/KEY.json), and after a restore what stands beside the checkpoint
// (standing.json): executions that the agent loads before it works on. The program in
// Python is undo.py in docs/tutorial.md.

import { createHash } from "node:crypto";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";

const work = process.argv[2];
const state = join(work, "state.json");
const standing = join(work, "standing.json");

const digest = (path) => "sha256:" + createHash("sha256").update(readFileSync(path)).digest("hex");

// move renames a file, and waits until the disk has the new name.
function move(from, to) {
  renameSync(from, to);
  const directory = openSync(dirname(to), "r");
  fsyncSync(directory);
  closeSync(directory);
}

// write replaces a file, whole and on disk, or leaves it as it is.
function write(path, content) {
  const file = openSync(path + ".new", "w");
  writeSync(file, content);
  fsyncSync(file);
  closeSync(file);
  move(path + ".new", path);
}

const nameOf = (ref) => ref.split("#").slice(1).join("#") + ".json";
const cancelled = (key) => join(work, "cancelled", key + ".json");

const hooks = {
  // Nothing of this agent is ever in flight: a step ends before the next begins.
  drain: () => ({ status: "done" }),

  restore(call) {
    const saved = join(work, "checkpoints", nameOf(call.checkpoint));
    if (!existsSync(saved)) return { status: "failed", residual: "the checkpoint is gone" };
    // First what stands: where the state is back, nobody asks for it again.
    write(standing, JSON.stringify(call.standing));
    write(state, readFileSync(saved));
    return { status: "done", digest: digest(state) };
  },

  // A real one passes the key on, as the idempotency key of the request.
  compensate(call) {
    move(join(work, "orders", nameOf(call.members[0].exec)), cancelled(call.key));
    return { status: "done" };
  },

  cancel: () => ({ status: "done" }),

  // probe says what became of a call that was started and did not end.
  probe(call) {
    if (call.of === "compensate") return { status: call.keys.some((key) => existsSync(cancelled(key))) ? "done" : "no_effect" };
    const back = call.of === "restore" && existsSync(state) && digest(state) === call.digest;
    if (back && existsSync(standing) && readFileSync(standing, "utf8") === JSON.stringify(call.standing)) return { status: "done", digest: call.digest };
    return { status: "no_effect" };
  },
};

const request = JSON.parse(readFileSync(0, "utf8"));
if (request.v !== 1) {
  console.error("a version of calls that this script does not know");
  process.exit(1);
}
process.stdout.write(JSON.stringify(hooks[request.hook](request)));
