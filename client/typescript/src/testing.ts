/** For tests of other programs, and of this one: reports from known randomness. Never for people's rows. */

export { Task } from "./task.js";
export { makeReport, type Report } from "./report.js";
export { epsilonAt } from "./privacy/statement.js";
