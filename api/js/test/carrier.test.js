// @ts-check
/** A carrier between agent and ledger alters the steps of bundles, which nobody signs: once, and for ever. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { carrierTo } from "./carrying.js";
import { live } from "./support.js";

const STEP = /"exec":(\d+),"rule":"SCO-3","from":\d+/g;

for (const { name, left, result } of [{ name: "once", left: 1, result: "compensated" }, { name: "for ever", left: 1e6, result: "refused" }]) {
  test(`a carrier alters bundles ${name}`, async (t) => {
    const at = await live(t);
    const { url, root } = at.machine.profile();
    let altered = 0;
    const carrier = await carrierTo(t, url, {
      alter: (text) => {
        const changed = text.replace(STEP, '"exec":$1,"rule":"SCO-1","from":$1');
        return changed === text || altered >= left ? text : (altered++, changed);
      },
    });
    const agent = await at.connect({ url: carrier.url, root });
    agent.compensates("charge", () => {});
    await agent.run("carried", async (run) => {
      const charge = await run.step("charge", { effect: "compensable" }, () => {});
      await run.signal(charge, "output.bad_arguments");
    }).catch((/** @type {Error} */ why) => assert.equal(why.name, "RolledBack"));
    assert.deepEqual(await at.outcomes(agent), { charge: result });
    assert(altered >= Math.min(left, 6), `${altered} altered`);
    assert(carrier.anew >= Math.min(left, 5), `${carrier.anew} asked anew`);
    assert(carrier.connections > 1);
  });
}
