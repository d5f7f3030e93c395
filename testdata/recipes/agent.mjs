// An agent under arl run, as agent.py is: charges three customers, once each,
// whoever holds the task. Node's own modules only.
//
//     arl run --task operator#charges --key worker.key -- node agent.mjs WORK
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const work = process.argv[2];
fs.mkdirSync(path.join(work, 'charges'), { recursive: true });

function arl(...args) {
  const out = execFileSync(process.env.ARL_PROGRAM, ['work', ...args, '--output', 'json'], { stdio: ['ignore', 'pipe', 'inherit'] });
  return out.length ? JSON.parse(out) : null;
}

// The service that has the effect: the same key twice is one charge.
function charge(customer, key) {
  try {
    fs.writeFileSync(path.join(work, 'charges', key), customer, { flag: 'wx' });
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
}

function save(state) {
  const file = path.join(work, `state-${state.done.length}.json`);
  const fd = fs.openSync(file + '.new', 'w');
  fs.writeSync(fd, JSON.stringify(state));
  fs.fsyncSync(fd);
  fs.closeSync(fd);
  fs.renameSync(file + '.new', file);
  arl('checkpoint', file);
}

let state = { done: [] };
if (process.env.ARL_CHECKPOINT) state = JSON.parse(fs.readFileSync(process.env.ARL_CHECKPOINT, 'utf8'));
for (const customer of ['ann', 'bob', 'cid']) {
  if (state.done.includes(customer)) continue;
  arl('progress', '--turns', String(state.done.length + 1), '--max-turns', '3');
  const step = arl('begin', 'charge-' + customer, '--effect', 'compensable');
  if (step.progress !== 'confirmed') charge(customer, step.idempotency_key); // else an attempt before this one did it
  arl('end', 'charge-' + customer);
  state.done.push(customer);
  save(state);
  if (process.env.AGENT_FAILS === customer) throw new Error('login of ann@example.org failed');
}
