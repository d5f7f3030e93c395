// The far ends of an agent, on loopback: a model that speaks OpenAI's chat completions, the tools,
// and a collector that keeps what an exporter of OTLP over HTTP sends.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

/** What the model answers to one question after another, by scene. The last answer is repeated. */
const SCENES = {
  retried: [
    { call: ["get_price", { item: "book" }] },
    { call: ["charge_card", { amount: 12 }] },
    { call: ["charge_card", { amount: 12 }] },
    { status: 429, error: { message: "Rate limit reached for requests", type: "requests", code: "rate_limit_exceeded" } },
    { text: "The book is paid." },
  ],
  refused: [
    { call: ["get_price", { item: "book" }] },
    { status: 401, error: { message: "Incorrect API key provided: none.", type: "invalid_request_error", code: "invalid_api_key" } },
  ],
};

const usage = { prompt_tokens: 21, completion_tokens: 7, total_tokens: 28 };

function completion(turn, model, number) {
  const message = { role: "assistant", content: turn.text ?? null };
  if (turn.call) {
    const [name, args] = turn.call;
    message.tool_calls = [{ id: `call_${number}`, type: "function", function: { name, arguments: JSON.stringify(args) } }];
  }
  return { id: `chatcmpl-${number}`, object: "chat.completion", created: 1700000000, model, usage,
    choices: [{ index: 0, message, logprobs: null, finish_reason: turn.call ? "tool_calls" : "stop" }] };
}

/** Writes an answer as the events of a stream. */
function stream(response, answer, withUsage) {
  const [{ message, finish_reason }] = answer.choices;
  const delta = { ...message, tool_calls: message.tool_calls?.map((call, index) => ({ index, ...call })) };
  const send = (choices, more) => response.write(`data: ${JSON.stringify({ ...answer, object: "chat.completion.chunk", usage: undefined, choices, ...more })}\n\n`);
  response.setHeader("content-type", "text/event-stream");
  send([{ index: 0, delta, finish_reason: null }]);
  send([{ index: 0, delta: {}, finish_reason }]);
  if (withUsage) send([], { usage });
  response.end("data: [DONE]\n\n");
}

function listen(answer) {
  const server = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      response.setHeader("content-type", "application/json");
      answer(Buffer.concat(parts).toString(), response);
    });
  });
  const close = () => { server.close(); server.closeAllConnections(); };
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ url: `http://127.0.0.1:${server.address().port}`, close })));
}

/** Starts a model that plays a scene. */
export function startModel(scene) {
  let asked = 0;
  return listen((body, response) => {
    const turn = SCENES[scene][Math.min(asked++, SCENES[scene].length - 1)];
    const question = JSON.parse(body);
    if (turn.status) {
      response.statusCode = turn.status;
      response.setHeader("retry-after", "0");
      response.end(JSON.stringify({ error: turn.error }));
    } else if (question.stream) {
      stream(response, completion(turn, question.model, asked), question.stream_options?.include_usage);
    } else {
      response.end(JSON.stringify(completion(turn, question.model, asked)));
    }
  });
}

/** Starts a collector that writes each batch as a line of a file. */
export function startCollector(file) {
  return listen((body, response) => {
    appendFileSync(file, body + "\n");
    response.end("{}");
  });
}

/** The tools of the agent. The card is refused the first time. */
export function newTools() {
  let charged = 0;
  return {
    get_price: ({ item }) => ({ item, price: 12 }),
    charge_card: ({ amount }) => {
      if (charged++ === 0) throw new Error("payment gateway: 503 Service Unavailable");
      return { charged: amount, receipt: "r-1" };
    },
  };
}
