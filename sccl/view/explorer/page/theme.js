// Dark or light: as the browser is, until one says otherwise.

const darkWanted = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () =>
  (document.documentElement.dataset.theme ?? (darkWanted.matches ? "dark" : "light")) === "dark";
const nameTheme = () => {
  byId("theme").textContent = isDark() ? "Light" : "Dark";
};

byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
darkWanted.addEventListener("change", nameTheme);
nameTheme();
