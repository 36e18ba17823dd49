// Reads {secret, deliveries: [{headers, body, isGood}]} and has the published library say which are good.
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";

const { secret, deliveries } = JSON.parse(readFileSync(0, "utf8"));
const verifier = new Webhook(secret);
const good = deliveries.map(({ headers, body }) => {
  try {
    verifier.verify(body, headers);
    return true;
  } catch {
    return false;
  }
});
const body = '{"signed":"by the library"}';
const now = new Date();
console.log(JSON.stringify({ good, body, timestamp: String(Math.floor(now / 1000)), signature: verifier.sign("evt_js", now, body) }));
