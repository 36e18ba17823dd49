// The checkout's form: what the card number means, test cards to click, faults
// beside their fields, and the data of this browser.
const $ = (id) => document.getElementById(id);

export function prepareForm() {
  // A wide window has room for the list of test cards.
  $("cards").open = matchMedia("(min-width: 40rem)").matches;
  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      $("card").value = chip.dataset.card;
      explain();
      $("form").scrollIntoView({ block: "nearest" });
    });
  }
  $("card").addEventListener("input", explain);
  $("plan").addEventListener("change", price);
  explain();
  price();
}

function price() {
  const monthly = $("plan").value === "monthly";
  const { dataset } = $("price");
  $("price").textContent = $("pay-price").textContent = monthly ? dataset.monthly : dataset.single;
  $("per").hidden = !monthly;
}

// explain says what the last four digits of the number mean, and marks the
// test card that it is.
function explain() {
  const number = $("card").value.replace(/[\s\p{Pd}]/gu, "");
  for (const chip of document.querySelectorAll(".chip")) {
    chip.setAttribute("aria-pressed", String(chip.dataset.card.replace(/\D/g, "") === number));
  }
  $("card-means").textContent = meaning(number);
}

// endings are those of the last two digits that no table on the page has.
const endings = {
  74: "you confirm in the app of the bank", 75: "you decide, on a tall page", 76: "passes by itself",
  84: "decoupled, fails", 85: "decoupled, times out", 86: "decoupled, rejected", 87: "decoupled",
};

// famous are the numbers that everybody knows.
const famous = ["4242 4242 4242 4242", "4111 1111 1111 1111", "5555 5555 5555 4444", "3782 822463 10005"]
  .map((spaced) => spaced.replaceAll(" ", ""));

function meaning(number) {
  if (!/^[0-9]{13,19}$/.test(number)) return "";
  if (number === "9000100111111111") return "A card that is not enrolled";
  if (number.startsWith("9000") || number.startsWith("9001")) return "A card of the older table: digits 5 to 8 decide";
  if (famous.includes(number)) return "A number that everybody knows: authenticated (Y)";
  const last = number.slice(-4);
  if (/^(41|51|34|35|36|65)0201/.test(number)) return `A card of 1.0.2 alone: ${legacy(last)}`;
  const words = ["a", "b", "c", "d"].map((place, i) => {
    for (const row of document.querySelectorAll(`dl[data-digit="${place}"] div`)) {
      if (row.querySelector("dt").textContent === last[i]) return row.querySelector("dd").textContent;
    }
    return null;
  });
  // How goes with a challenge or without; 2.1.0 has neither informational nor decoupled.
  const [versions, , outcome, how] = last;
  const ending = endings[outcome + how];
  if (ending && words[0] && words[1] && !(versions === "1" && outcome === "8")) {
    return `Ends in ${last}: ${words[0]}, ${words[1]}, ${ending}`;
  }
  const unfit = (outcome === "7") === (how === "3") || (versions === "1" && "48".includes(outcome));
  if (words.includes(null) || unfit) return "No test card ends so: expect an error";
  return `Ends in ${last}: ${words.join(", ")}`;
}

// legacy says what the digits mean in 3-D Secure 1.0.2.
function legacy(last) {
  if (last[0] === "0") return ["authenticated", "attempted", "not authenticated", "unavailable", "signature broken"][last[3]] || "unavailable";
  return { 1: "not enrolled", 3: "directory server silent" }[last[0]] || "cannot say";
}

// fitting is the largest challenge window that this viewport has room for.
function fitting() {
  const { innerWidth: w, innerHeight: h } = window;
  if (w >= 560 && h >= 720) return "03";
  if (w >= 660 && h >= 500) return "04";
  return "05";
}

export function order() {
  return {
    card: $("card").value,
    expiry: $("expiry").value,
    name: $("name").value,
    plan: $("plan").value,
    version: $("version").value,
    window: $("window").value || fitting(),
    trouble: $("trouble").value,
    browser: {
      javaEnabled: false,
      language: navigator.language,
      colorDepth: screen.colorDepth,
      screenHeight: screen.height,
      screenWidth: screen.width,
      tz: new Date().getTimezoneOffset(),
      userAgent: navigator.userAgent,
    },
  };
}

// showFaults puts each fault beside its field and the focus on the first.
export function showFaults(faults) {
  $("form-fault").textContent = faults[""] || "";
  $("form-fault").hidden = !faults[""];
  let first = null;
  for (const name of ["card", "expiry", "name"]) {
    const input = $(name);
    const text = faults[name] || "";
    $(`${name}-fault`).textContent = text;
    $(`${name}-fault`).hidden = !text;
    if (text) {
      input.setAttribute("aria-invalid", "true");
      first = first || input;
    } else {
      input.removeAttribute("aria-invalid");
    }
  }
  if (first) first.focus();
}
