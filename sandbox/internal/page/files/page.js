for (const form of document.querySelectorAll("form[data-after]")) {
  setTimeout(() => form.submit(), Number(form.dataset.after));
}
// What happens outside the page ends it: the bank knows when, and the page asks.
for (const form of document.querySelectorAll("form[data-until]")) {
  const ask = async () => {
    const answer = await fetch(form.dataset.until, { cache: "no-store" }).catch(() => null);
    if (answer?.status === 200) location.reload();
    else setTimeout(ask, 1500);
  };
  setTimeout(ask, 1500);
}
// In a shop's frame there is no autofocus. Who has answered is in the page
// already, and goes on where the answer is described. What coming back restores
// in the field, before this event, is written over.
addEventListener("pageshow", () => {
  const field = document.querySelector("[data-focus]");
  field?.focus();
  field?.select?.(); // a text, such as that of the bank's app, has nothing to select
});
