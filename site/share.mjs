// share.mjs: a program as text for a URL, as site/pages/share.js makes and reads it in the browser.
import { deflateRawSync } from "node:zlib";

export const pack = (text) => deflateRawSync(Buffer.from(text), { level: 9 }).toString("base64url");
