// @ts-check
/**
 * An agent that calls tools as a model says, in the form of OpenAI's chat completions.
 *
 * Each call of a tool is a step. The steps of a conversation rest on each other: what the model had
 * read before it called a tool, the call rests on. When a rollback undoes calls, the conversation goes
 * back to the checkpoint before the first of them, and the model is told.
 */
import { RolledBack } from "recoveryledger";

/**
 * @typedef {Record<string, any>} Message
 * @typedef {{call: (args: any, key: string) => any, effect?: import("../src/run.js").Effect}} Tool call gets the arguments
 *   and an idempotency key
 * @typedef {(messages: Message[]) => Message | Promise<Message>} Model
 */

/**
 * Has a model call tools until it answers without a call.
 *
 * @param {import("recoveryledger").Agent} agent
 * @param {string} name of the run
 * @param {Message[]} messages
 * @param {Record<string, Tool>} tools
 * @param {Model} model
 * @returns {Promise<Message[]>} the conversation
 */
export async function converse(agent, name, messages, tools, model) {
  for (;;) {
    const from = messages;
    try {
      return await agent.run(name, (run) => turns(run, from, tools, model));
    } catch (why) {
      if (!(why instanceof RolledBack)) throw why;
      const content = `These calls were undone: ${Object.keys(why.undone).sort().join(", ")}. Do them again otherwise.`;
      messages = [...(why.state ?? messages.slice(0, 1)), { role: "user", content }];
    }
  }
}

/**
 * The turns of one run.
 *
 * @param {import("recoveryledger").Run} run @param {Message[]} messages @param {Record<string, Tool>} tools @param {Model} model
 */
async function turns(run, messages, tools, model) {
  /** @type {import("recoveryledger").Step | undefined} */
  let before;
  for (;;) {
    const answer = await run.wait(Promise.resolve(model(messages))); // told here, too, while the model thinks
    if (!answer["tool_calls"]?.length) return [...messages, answer];
    await run.checkpoint(`turn-${messages.length}`, messages);
    messages = [...messages, answer];
    for (const { id, function: called } of answer["tool_calls"]) {
      const tool = tools[called.name];
      if (!tool) throw new Error(`no tool ${called.name}`);
      const options = { effect: tool.effect ?? "none", parents: before ? [before] : [], id };
      before = await run.step(called.name, options, (step) => tool.call(JSON.parse(called.arguments), step.key));
      messages = [...messages, { role: "tool", tool_call_id: id, content: JSON.stringify(before.result) }];
    }
  }
}
