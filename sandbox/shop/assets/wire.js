// The panel of messages. Each is a row that opens; rows are only ever added.
const $ = (id) => document.getElementById(id);
const list = $("wire-list");

export function clearWire() {
  list.replaceChildren();
  $("wire-empty").hidden = false;
  $("wire-all").hidden = true;
  $("wire-all").textContent = "Open all";
}

export function showWire(messages) {
  for (const message of messages) {
    const row = list.children[message.number - 1];
    if (!row) {
      list.append(make(message));
    } else if (Number(row.dataset.times) < message.times) {
      row.dataset.times = message.times;
      row.querySelector(".times").textContent = `× ${message.times}`;
    }
  }
  $("wire-empty").hidden = list.children.length > 0;
  $("wire-all").hidden = list.children.length === 0;
}

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text) e.textContent = text;
  return e;
}

function make(message) {
  const row = element("li");
  row.dataset.testid = "wire-message";
  row.dataset.name = message.name;
  row.dataset.times = message.times;
  const details = element("details");
  const summary = element("summary");
  const line = element("span", "line");
  line.append(element("span", "name", message.name), element("span", "gist", gist(message)), element("span", "times", message.times > 1 ? `× ${message.times}` : ""));
  const route = element("span", "route", `${message.from} → ${message.to}`);
  const time = element("time", "", new Date(message.at).toISOString().slice(11, 23));
  time.dateTime = message.at;
  route.append(" · ", time);
  summary.append(line, route);
  details.append(summary);
  details.append(...body(message));
  row.append(details);
  return row;
}

function body(message) {
  const tools = element("div", "tools");
  const pre = element("pre");
  pre.tabIndex = 0;
  pre.setAttribute("role", "group"); // what has no role may have no name
  pre.setAttribute("aria-label", `${message.name}, message ${message.number}`);
  for (const text of message.body.split("\n")) {
    const [, indent, name, rest] = text.match(/^(\s*)("(?:[^"\\]|\\.)*":)?([^]*)$/);
    pre.append(indent, element("span", "key", name || ""), `${rest}\n`);
  }
  const copy = element("button", "quiet copy", "Copy");
  copy.type = "button";
  copy.setAttribute("aria-label", `Copy ${message.name}`);
  copy.addEventListener("click", async () => {
    copy.textContent = await copied(message.body, pre) ? "Copied" : "Selected";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  tools.append(element("span", "message-note", message.note), copy);
  return [tools, pre];
}

// copied puts a text on the clipboard and reports whether it is there. Plain http at a
// name other than this machine's gives pages no clipboard: there the text is
// selected and copied as a hand would, and stays selected if that may not be.
async function copied(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(shown);
    if (!document.execCommand("copy")) return false;
    getSelection().removeAllRanges();
    return true;
  }
}

// gist is what to know of a message without opening it.
function gist({ body: text }) {
  let m;
  try {
    m = JSON.parse(text);
  } catch {
    return "";
  }
  if (m.messageType === "Erro") return m.errorCode;
  if (m.transStatus) return m.transStatus;
  if (m.enrolled !== undefined) return m.enrolled ?? m.error?.message ?? "";
  if (m.status) return m.status;
  if (m.error?.type) return m.error.type;
  if (m.threeDSCompInd) return `${m.messageVersion}, compInd ${m.threeDSCompInd}`;
  if (m.messageType === "CRD") return m.scheme || "";
  if (m.challengeWindowSize) return `window ${m.challengeWindowSize}`;
  return "";
}

$("wire-all").addEventListener("click", () => {
  const open = $("wire-all").textContent === "Open all";
  for (const details of list.querySelectorAll("details")) details.open = open;
  $("wire-all").textContent = open ? "Close all" : "Open all";
});
