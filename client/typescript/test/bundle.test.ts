/** What pages load: small, without what a strict page forbids, and the same bytes each time. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import test from "node:test";
import { isWhole } from "./world.js";

interface File {
  gzipped: number;
  integrity: string;
}

const files = (): Record<string, File> => JSON.parse(readFileSync("dist/files.json", "utf8"));

const KB = 1024;

test("the bundles are as small as promised", () => {
  const { "lintra.js": web, "the entry point ./pure": pure, "element.js": element } = files();
  assert.ok(web.gzipped <= 34 * KB, `${web.gzipped} bytes with WebCrypto`);
  assert.ok(pure.gzipped <= 48 * KB, `${pure.gzipped} bytes without`);
  assert.ok(element.gzipped <= 8 * KB, `${element.gzipped} bytes of the form`);
});

test("nothing in them needs more than script-src 'self', and no row depends on a weak generator", () => {
  for (const name of ["lintra.js", "pure.js", "element.js"]) {
    const text = readFileSync(`dist/${name}`, "utf8");
    for (const forbidden of [/\beval\(/, /new Function\b/, /WebAssembly/, /document\.write/, /innerHTML/, /localStorage/])
      assert.doesNotMatch(text, forbidden, `${name}: ${forbidden}`);
  }
  // One use of Math.random: how long to wait before a request is sent again.
  assert.equal(readFileSync("dist/lintra.js", "utf8").match(/Math\.random/g)?.length, 1);
});

test("two builds have the same bytes", { skip: !isWhole && "`npm test` builds twice" }, () => {
  const before = files();
  execFileSync(process.execPath, ["bundle.mjs"]);
  assert.deepEqual(files(), before);
});
