// The two frames of the flow: the hidden one of the 3DS Method and the one of
// the challenge, in its dialog.
const $ = (id) => document.getElementById(id);

// The attributes that the protocol gives the frame of the 3DS Method, and that of the challenge.
const methodSandbox = "allow-forms allow-scripts allow-same-origin";
const challengeSandbox = "allow-forms allow-scripts allow-same-origin allow-pointer-lock";
const challengeSandboxBefore231 = "allow-forms allow-scripts allow-same-origin allow-pointer-lock allow-popups";

// notice resolves when the shop's own notification page reports from a frame.
function noticeFrom(frame, step) {
  const aborted = new AbortController();
  const heard = new Promise((resolve) => {
    addEventListener("message", (event) => {
      if (event.origin !== location.origin || event.source !== frame.contentWindow) return;
      if (event.data?.shop === step) resolve("notice");
    }, { signal: aborted.signal });
  });
  return { heard, stop: () => aborted.abort() };
}

function makeFrame(src, title, sandbox) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", sandbox);
  frame.title = title;
  frame.src = src;
  return frame;
}

export function hiddenFrame(src) {
  const frame = makeFrame(src, "3DS Method", methodSandbox);
  frame.className = "method-frame";
  frame.setAttribute("aria-hidden", "true");
  frame.tabIndex = -1;
  const { heard, stop } = noticeFrom(frame, "method");
  document.body.append(frame);
  return { notice: heard, remove: () => { stop(); frame.remove(); } };
}

// challenge opens the dialog. noticed resolves to "notice" when the cardholder is
// back, and cancelled to "cancel" when the dialog was closed.
export function challenge(view) {
  const dialog = $("dialog");
  const frame = makeFrame(`/frame/${view.id}/challenge`, "Question of your bank",
    view.version >= "2.3.1" ? challengeSandbox : challengeSandboxBefore231);
  frame.dataset.testid = "challenge-frame";
  if (view.version >= "2.3.1") frame.allow = "payment *; publickey-credentials-get *; publickey-credentials-create *";
  dialog.dataset.window = view.window;
  $("dialog-frame").replaceChildren(frame);
  $("dialog-open").href = frame.src; // for banks that forbid frames: the shop is found again on the way back
  const { heard, stop } = noticeFrom(frame, "challenge");
  const aborted = new AbortController();
  const { signal } = aborted;
  const cancelled = new Promise((resolve) => {
    $("dialog-cancel").addEventListener("click", () => resolve("cancel"), { signal });
    dialog.addEventListener("cancel", (event) => { // the Escape key
      event.preventDefault();
      resolve("cancel");
    }, { signal });
  });
  dialog.showModal();
  $("dialog-title").focus();
  return {
    noticed: heard,
    cancelled,
    close() {
      stop();
      aborted.abort();
      dialog.close();
      $("dialog-frame").replaceChildren();
      $("progress-title").focus();
    },
  };
}
