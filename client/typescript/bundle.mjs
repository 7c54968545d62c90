// Writes dist/: the client as pages load it, minified; the same bytes on every machine.
import { createHash } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

// A file of dist is loaded by the others, and never a part of them.
const apart = { "./suites/pure.js": "./pure.js", "./index.js": "./lintra.js" };
const parts = {
  name: "parts",
  setup: ({ onResolve }) => onResolve({ filter: /\/(pure|index)\.js$/ }, ({ path, kind }) =>
    kind !== "entry-point" && apart[path] ? { path: apart[path], external: true } : undefined),
};
const common = { bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none", charset: "utf8", write: false };

async function bundled(entry, plugins = [parts]) {
  const { outputFiles } = await build({ ...common, entryPoints: [entry], plugins });
  return outputFiles[0].contents;
}

const said = (bytes) => ({
  bytes: bytes.length, gzipped: gzipSync(bytes, { level: 9 }).length,
  integrity: `sha384-${createHash("sha384").update(bytes).digest("base64")}`,
});
rmSync("dist", { recursive: true, force: true });
mkdirSync("dist");
const files = {};
for (const [name, entry] of [["lintra", "src/index.ts"], ["pure", "src/suites/pure.ts"], ["element", "src/element.ts"], ["testing", "src/testing.ts"]]) {
  const bytes = await bundled(entry);
  writeFileSync(`dist/${name}.js`, bytes);
  files[`${name}.js`] = said(bytes);
}
// What a program for React Native gets in its own bundle.
files["the entry point ./pure"] = said(await bundled("src/pure.ts", []));
writeFileSync("dist/files.json", `${JSON.stringify(files, null, 1)}\n`);
