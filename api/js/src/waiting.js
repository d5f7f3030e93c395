// @ts-check
/** Waiting: for a time, for a change, and for what a process lives on for. */
import { AsyncLocalStorage } from "node:async_hooks";

const LONGEST_MS = 2 ** 31 - 1; // of a timer

/**
 * Waits.
 *
 * @param {number} ms
 * @param {boolean} [idle] the process need not live on for that
 * @returns {Promise<void>}
 */
export const pause = (ms, idle = false) => new Promise((resolve) => {
  const timer = setTimeout(resolve, Math.min(ms, LONGEST_MS));
  if (idle) timer.unref();
});

/** Something that changes. */
export class Change {
  /** @type {Set<() => void>} */
  #waiting = new Set();

  /** Wakes all who wait. */
  notify() {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /**
   * Waits for the next change, or for a time in milliseconds.
   *
   * @param {number} [ms] @param {boolean} [idle] the process need not live on for that
   * @returns {Promise<void>}
   */
  wait(ms = LONGEST_MS, idle = false) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => wake(), Math.min(ms, LONGEST_MS));
      if (idle) timer.unref();
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      this.#waiting.add(wake);
    });
  }
}

/**
 * Where code runs: within steps, by their local ids, or in what the agent itself calls.
 *
 * @type {AsyncLocalStorage<{agent: object, steps: string[], obeying: boolean}>}
 */
export const place = new AsyncLocalStorage();
