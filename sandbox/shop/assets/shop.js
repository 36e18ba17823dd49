// The checkout. The back end says which state a checkout is in; this page does
// what the state asks for, again and again, until it is done.
import { showWire, clearWire } from "./wire.js";
import { showSteps } from "./steps.js";
import { challenge, hiddenFrame } from "./frames.js";
import { prepareForm, order, showFaults } from "./form-fields.js";
import { showResult } from "./result.js";
import { available, confirm } from "./confirm.js";

const $ = (id) => document.getElementById(id);
const processing = Number(document.body.dataset.processing);
const noticeWait = Number(document.body.dataset.noticeWait);
const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

// The place of the checkout in this tab, should the bank's page leave its
// frame or the shopper reload. Where sites may keep nothing, there is none.
const kept = (() => {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
})();
const place = {
  get: () => kept?.getItem("checkout"),
  set: (id) => kept?.setItem("checkout", id),
  clear: () => kept?.removeItem("checkout"),
};

let began = 0; // when the processing screen was shown
let methodRan = ""; // in which checkout the 3DS Method was run

async function call(path, body) {
  const init = { cache: "no-store" };
  if (body !== undefined) {
    init.method = "POST";
    init.headers = { "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  const answer = await fetch(path, init);
  if (answer.status === 404) {
    place.clear();
    throw Object.assign(new Error("the checkout is over"), { over: true });
  }
  const data = await answer.json();
  if (!answer.ok && !data.faults) throw new Error(`status ${answer.status}`);
  if (data.wire) {
    showWire(data.wire);
    showSteps(data);
  }
  return data;
}

// What a checkout was asked it may be asked again. So a call that failed (the
// network, a page that was put aside while it waited) changes nothing, and the
// page goes on with the view that it has, until failures follow one another.
const patience = 6;
let failures = 0;

async function tried(answer, view) {
  try {
    const next = await answer;
    failures = 0;
    trouble("");
    return next;
  } catch (error) {
    failures++;
    if (failures === patience || error.over) throw error;
    console.warn(error);
    trouble("The shop does not answer at the moment. Trying again…");
    await pause(1000);
    return view;
  }
}

// trouble says it where it is seen: what is under an open dialog is not.
function trouble(text) {
  for (const line of document.querySelectorAll(".trouble")) {
    if (line.textContent !== text) line.textContent = text;
  }
}

const look = (id) => call(`/checkout/${id}`);
const ask = (id) => call(`/checkout/${id}/result`, {});

// show makes one of the three cards of the left side visible.
function show(which) {
  for (const id of ["form", "progress", "result"]) $(id).hidden = id !== which;
  $("cards").hidden = which !== "form";
  $("steps").hidden = which === "form";
}

function working(title, text) {
  show("progress");
  if ($("progress-title").textContent !== title) $("progress-title").textContent = title;
  if ($("progress-text").textContent !== text) $("progress-text").textContent = text;
}

// watch keeps the panel up to date while a slow call is under way.
async function watch(id, promise) {
  let over = false;
  const end = promise.finally(() => { over = true; });
  while (!over) {
    await Promise.race([pause(400), end]);
    if (!over) await look(id).catch(() => {});
  }
  return end;
}

const steps = {
  // Not enrolled in 2.x: the back end asks about 1.0.2.
  async enrolling(view) {
    const next = await tried(watch(view.id, call(`/checkout/${view.id}/enrolled`, {})), view);
    if (next.state === "enrolling") await pause(500); // another tab has asked
    return next;
  },

  // The 3DS Method: in a hidden frame, until the bank's notice or the limit.
  async method(view) {
    const { run, limit, noticed } = view.method;
    if (run && !noticed && methodRan !== view.id) {
      methodRan = view.id;
      const frame = hiddenFrame(`/frame/${view.id}/method`);
      let heard = false;
      frame.notice.then(() => { heard = true; });
      const end = performance.now() + limit;
      while (!heard && performance.now() < end) {
        await Promise.race([frame.notice, pause(Math.min(500, end - performance.now()))]);
        if ((await tried(look(view.id), view)).method.noticed) heard = true;
      }
      frame.remove();
    }
    return tried(watch(view.id, call(`/checkout/${view.id}/auth`, {})), view);
  },

  async asking(view) {
    await pause(500);
    return tried(look(view.id), view);
  },

  // The challenge: until the notice, the cancel button, or a result that has
  // come without either (the bank gave up waiting).
  async challenge(view) {
    await minimum();
    working("Waiting for you", "Your bank has a question. Please answer it in the dialog.");
    const dialog = challenge(view);
    const events = [dialog.cancelled, dialog.noticed];
    try {
      for (let wait = 1500; view.state === "challenge"; wait = Math.min(wait * 1.2, 5000)) {
        const event = await Promise.race([...events, pause(wait)]);
        if (event === "cancel") return cancel(view); // and close the dialog before that is over
        if (event === "notice") events.pop(); // once
        view = await tried(event === "notice" ? look(view.id) : ask(view.id), view);
        if (event !== "notice" && view.state === "done") view = await notice(dialog, view);
      }
      return view;
    } finally {
      dialog.close();
    }
  },

  async returned(view) {
    working(view.canceled ? "Cancelling" : "Fetching the result", "One moment, please.");
    return poll(view, 200, 2000);
  },

  // The browser's own dialog, and then the second AReq.
  async confirming(view) {
    working("Confirm the payment", "Your browser asks you to confirm this payment.");
    const outcome = await confirm(view.confirm);
    return tried(watch(view.id, call(`/checkout/${view.id}/confirmed`, outcome)), view);
  },

  async decoupled(view) {
    await minimum();
    working("Approve in your bank's app", view.info || "Your bank asks you to approve this payment on another device. This page goes on by itself.");
    return poll(view, 1000, 5000);
  },
};

async function cancel(view) {
  working("Cancelling", "One moment, please.");
  let next = view;
  while (next === view) next = await tried(call(`/checkout/${view.id}/cancel`, {}), view);
  return next;
}

// notice lets the bank end its page when the result is here before it: it still
// shows the cardholder how it went, and then sends the CRes. None comes
// where time ran out, or where the bank has no page.
async function notice(dialog, view) {
  if (["timed out", "bank unreachable"].includes(view.ending.word)) return view;
  await Promise.race([dialog.cancelled, dialog.noticed, pause(noticeWait)]);
  return tried(look(view.id), view);
}

async function poll(view, wait, longest) {
  const { state } = view;
  while (view.state === state) {
    await pause(wait);
    view = await tried(ask(view.id), view);
    wait = Math.min(wait * 1.5, longest);
  }
  return view;
}

// minimum waits until the processing screen was to be seen for long enough.
const minimum = () => pause(Math.max(0, began + processing - performance.now()));

async function drive(view) {
  place.set(view.id);
  began = performance.now();
  failures = 0;
  trouble("");
  working("Checking with your bank", "This takes a few seconds. Please stay on this page.");
  $("scheme").hidden = !view.scheme;
  $("scheme").textContent = view.scheme || "";
  $("progress-title").focus();
  while (view.state !== "done") {
    if (!steps[view.state]) throw new Error("a state that this page does not know");
    view = await steps[view.state](view);
  }
  await minimum();
  place.clear();
  show("result");
  showResult(view.ending);
}

// lost says that the back end did not answer, or no longer knows the checkout.
// Otherwise a reload goes on with it.
function lost(error) {
  console.error(error);
  show("form");
  let text = "The shop did not answer. Please pay again.";
  if (error.over) text = "This checkout took too long and is over. Please pay again.";
  else if (place.get()) text = "The shop did not answer. Reload the page to go on where you were, or pay again.";
  showFaults({ "": text });
  $("pay").disabled = false;
}

async function pay() {
  $("pay").disabled = true;
  showFaults({});
  clearWire();
  try {
    const view = await call("/checkout", { ...order(), confirm: await available() });
    if (view.faults) {
      showFaults(view.faults);
    } else {
      await drive(view);
    }
    $("pay").disabled = false;
  } catch (error) {
    lost(error);
  }
}

async function resume(id) {
  let view;
  try {
    view = await look(id);
  } catch {
    $("pay").disabled = false; // nothing to go on with
    return;
  }
  await drive(view).catch(lost);
  $("pay").disabled = false;
}

prepareForm();
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!$("pay").disabled) pay(); // a script may submit all the same
});
$("again").addEventListener("click", () => {
  show("form");
  $("card").focus();
});
// The button was disabled so far: it would have put the card number into the address, or
// begun a second payment beside the one that goes on.
if (place.get()) resume(place.get());
else $("pay").disabled = false;
