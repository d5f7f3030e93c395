// @ts-check
/**
 * A graph of LangGraph whose nodes are steps. The graph runs one node at a time. When a rollback undoes
 * nodes, the graph goes back to its own checkpoint before the first of them, and goes on from there.
 *
 * The graph is compiled with a checkpointer. A node finds its idempotency key in
 * `config.configurable.key`.
 */
import { RolledBack } from "recoveryledger";

/**
 * What the example needs of a compiled graph.
 *
 * @typedef {{configurable?: Record<string, any>}} Config
 * @typedef {{getState: (config: Config) => Promise<{values: any, next: string[], config: Config}>,
 *   invoke: (input: any, config: Config & {interruptBefore: "*"}) => Promise<any>}} Graph
 */

/**
 * Invokes a graph, as a run of an agent.
 *
 * @param {import("recoveryledger").Agent} agent
 * @param {string} name of the run, and of the graph's thread
 * @param {Graph} graph
 * @param {Record<string, import("../src/run.js").Effect>} effects of nodes, by name; of others: none
 * @param {any} input
 * @returns {Promise<any>} the state at the end
 */
export async function invoke(agent, name, graph, effects, input) {
  const thread = { thread_id: name };
  /** @type {Config} */
  let from = { configurable: thread };
  const begun = await graph.getState(from);
  if (begun.config.configurable?.["checkpoint_id"] === undefined) await graph.invoke(input, { ...from, interruptBefore: "*" });
  for (;;) {
    const at = from;
    try {
      return await agent.run(name, (run) => nodes(run, graph, effects, thread, at));
    } catch (why) {
      if (!(why instanceof RolledBack)) throw why;
      from = { configurable: { ...thread, checkpoint_id: firstOf(Object.keys(why.undone)) } };
    }
  }
}

/**
 * Runs the nodes from a checkpoint of the graph on.
 *
 * @param {import("recoveryledger").Run} run @param {Graph} graph @param {Record<string, import("../src/run.js").Effect>} effects
 * @param {Record<string, any>} thread @param {Config} from
 */
async function nodes(run, graph, effects, thread, from) {
  /** @type {import("recoveryledger").Step | undefined} */
  let before;
  let state = await graph.getState(from);
  for (; state.next[0] !== undefined; state = await graph.getState({ configurable: thread })) {
    const [node] = state.next;
    const { configurable = {} } = state.config;
    const id = String(configurable["checkpoint_id"]);
    await run.checkpoint(id, configurable);
    before = await run.step(node, { effect: effects[node] ?? "none", parents: before ? [before] : [], id }, async (step) => {
      await graph.invoke(null, { configurable: { ...configurable, key: step.key }, interruptBefore: "*" });
      return (await graph.getState({ configurable: thread })).values;
    });
  }
  return state.values;
}

/**
 * The checkpoint before the first of the steps that were undone. A step has the id of the checkpoint before
 * it, and the ids of LangGraph ascend with time.
 *
 * @param {string[]} undone executions, as AGENT#RUN/NODE:CHECKPOINT
 */
const firstOf = (undone) => undone.map((exec) => exec.replace(/^.*:|@\d+$/g, "")).sort()[0];
