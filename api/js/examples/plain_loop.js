// @ts-check
/** A plain loop that pays invoices, and goes on where it was after a crash or a rollback. */
import { RolledBack } from "recoveryledger";

/**
 * Pays invoices at a rate.
 *
 * @param {import("recoveryledger").Agent} agent
 * @param {string[]} invoices
 * @param {() => number} rate
 * @param {(invoice: string, amount: number, key: string) => any} charge gets an idempotency key, too
 * @returns {Promise<Record<string, any>>} what was paid
 */
export async function pay(agent, invoices, rate, charge) {
  for (;;) {
    try {
      return await agent.run("invoices", async (run) => {
        await run.checkpoint("begun", {});
        const read = await run.step("rate", { effect: "reversible" }, rate);
        for (const invoice of invoices)
          await run.step("charge", { effect: "compensable", parents: [read], id: invoice }, (step) => charge(invoice, read.result, step.key));
        const undone = await agent.obey(); // a mistake that was noticed at the end
        if (Object.keys(undone).length) return pay(agent, invoices, rate, charge);
        return Object.fromEntries(invoices.map((invoice) => [invoice, run.result("charge", invoice)]));
      });
    } catch (why) {
      if (!(why instanceof RolledBack)) throw why; // else the next round takes what was undone again
    }
  }
}
