// The list of steps: what is over, what is under way, what was left out.
const order = ["starting", "method", "enrolling", "asking", "challenge", "returned", "done"];

function set(step, state, outcome) {
  const row = document.querySelector(`#steps li[data-step="${step}"]`);
  row.dataset.state = state;
  const out = row.querySelector(".outcome");
  if (out.textContent !== outcome) out.textContent = outcome;
}

const legacy = (view) => view.version === "1.0.2";
const has = (view, name) => view.wire.some((m) => m.name === name);

export function showSteps(view) {
  const at = order.indexOf({ decoupled: "challenge", confirming: "asking" }[view.state] ?? view.state);
  const started = Boolean(view.version);
  if (legacy(view)) set("check", "over", "not enrolled in 2.x, on with 1.0.2");
  else set("check", started ? "over" : "stopped", started ? `${view.scheme || "enrolled"}, version ${view.version}` : "no");
  set("method", ...method(view, at));
  set("auth", ...authentication(view));
  set("challenge", ...challenge(view));
  set("result", ...result(view));
}

function method(view, at) {
  if (legacy(view)) return ["skipped", "none in 1.0.2"];
  if (!view.method) return ["skipped", "not reached"];
  const { run, noticed, compInd } = view.method;
  if (at <= order.indexOf("method")) return ["active", run ? (noticed ? "answered" : "waiting for the bank") : "none"];
  return [run ? "over" : "skipped", { Y: "answered (Y)", N: "no answer in time (N)", U: "none for this card (U)" }[compInd] || ""];
}

function authentication(view) {
  if (legacy(view)) return enrolment(view);
  if (has(view, "ARes")) {
    const { transStatus } = JSON.parse(view.wire.findLast((m) => m.name === "ARes").body);
    return ["over", `transStatus ${transStatus}`];
  }
  if (view.state === "asking") return ["active", "asking the bank"];
  return view.state === "done" ? ["stopped", has(view, "AReq") ? "no answer" : "not reached"] : ["", ""];
}

// In 1.0.2 the directory server tells whether a card takes part, and no more.
function enrolment(view) {
  const answer = view.wire.find((m) => m.name === "Enrolment");
  if (!answer) return view.state === "done" ? ["stopped", "no answer"] : ["active", "asking the directory server"];
  let enrolled = null;
  try {
    ({ enrolled } = JSON.parse(answer.body));
  } catch { /* said in the ending */ }
  return [enrolled === "Y" ? "over" : "stopped", `enrolled ${enrolled ?? "unknown"}`];
}

function challenge(view) {
  if (view.state === "challenge") return ["active", "your turn"];
  if (view.state === "decoupled") return ["active", "on another device"];
  if (authentication(view)[1] === "transStatus D") return ["over", "on another device"];
  if (!has(view, "CReq") && !has(view, "PAReq")) return view.state === "done" ? ["skipped", "none"] : ["", ""];
  if (view.canceled) return ["stopped", "closed by you"];
  return ["over", has(view, "CRes") || has(view, "PARes") ? "answered" : "over"];
}

function result(view) {
  if (view.state === "returned") return ["active", "fetching"];
  if (view.state === "done") return [view.ending.good ? "over" : "stopped", view.ending.word];
  return ["", ""];
}
