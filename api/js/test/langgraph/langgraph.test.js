/** The example of LangGraph, with the library itself: `make js` installs the library and runs the test. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Annotation, END, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { invoke } from "../../examples/langgraph.js";
import { live } from "../support.js";

test("a graph goes back to its checkpoint", async (t) => {
  const at = await live(t);
  const agent = await at.connect();
  const orders = new Map();
  const seen = [];
  agent.compensates("order", (undo) => void orders.delete(undo.stepKey));
  agent.restores(() => {}); // the graph's checkpointer keeps every state
  const readings = [1.25, 1250];
  const State = Annotation.Root({ item: Annotation(), price: Annotation(), ordered: Annotation() });
  const graph = new StateGraph(State)
    .addNode("look", (state) => {
      seen.push({ ...state });
      return { item: "bolts" };
    })
    .addNode("price_of", (state) => {
      seen.push({ ...state });
      return { price: readings.shift() };
    })
    .addNode("order", async (state, config) => {
      orders.set(config.configurable.key, state.price);
      return { ordered: true };
    })
    .addNode("check", async (state) => {
      if (state.price > 2) return {};
      const { configurable } = await graph.getState({ configurable: { thread_id: "shop" } }).then(({ config }) => config);
      const history = [];
      for await (const one of graph.getStateHistory({ configurable: { thread_id: configurable.thread_id } })) history.push(one);
      const wrong = history.find((one) => one.next[0] === "price_of");
      await at.signal(agent, "shop", `price_of:${wrong.config.configurable.checkpoint_id}`);
      return {};
    })
    .addEdge(START, "look").addEdge("look", "price_of").addEdge("price_of", "order").addEdge("order", "check").addEdge("check", END)
    .compile({ checkpointer: new MemorySaver() });

  const end = await invoke(agent, "shop", graph, { price_of: "reversible", order: "compensable" }, { item: "" });
  assert.deepEqual({ ...end }, { item: "bolts", price: 1250, ordered: true });
  assert.deepEqual([...orders.values()], [1250]); // the other one was cancelled
  assert.deepEqual(seen.map(({ item, price }) => [item, price]), [["", undefined], ["bolts", undefined], ["bolts", undefined]]); // the state as before the node
  assert.deepEqual(at.events.filter((e) => e.kind === "outcome").map((e) => e.text), ["compensated", "restored"]);
});
