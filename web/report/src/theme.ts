// Colours that people with any kind of colour vision can distinguish (after Okabe and Ito), for light and dark pages.

/** The colours of charts. The style sheet has the same colours. */
export interface Look {
  dark: boolean;
  text: string;
  faint: string;
  line: string;
  page: string;
  compute: string;
  exposed: string;
  memory: string;
  queue: string;
  network: string;
  reduction: string;
  wait: string;
  bubble: string;
  skew: string;
  /** Forward pass, gradient of inputs, gradient of parameters. */
  parts: [string, string, string];
  /** Dimensions of the network. */
  dims: string[];
  /** From least to most loaded. */
  ramp: string[];
}

export const LIGHT: Look = {
  dark: false,
  text: "#1c2530",
  faint: "#5b6673",
  line: "#d7dde4",
  page: "#ffffff",
  compute: "#0072b2",
  exposed: "#d55e00",
  memory: "#b05a8c",
  queue: "#e69f00",
  network: "#0072b2",
  reduction: "#009e73",
  wait: "#9aa5b1",
  bubble: "#cc9a06",
  skew: "#7a6bb0",
  parts: ["#009e73", "#e69f00", "#56b4e9"],
  dims: ["#009e73", "#8657a5", "#b8860b", "#3a8fb7", "#a8466b", "#5f7d1c", "#6b5b95", "#4d4d4d"],
  ramp: ["#cfe1f2", "#7fb6dc", "#2c7fb8", "#0b3d77"],
};

export const DARK: Look = {
  dark: true,
  text: "#e6ebf1",
  faint: "#9fabb8",
  line: "#36414d",
  page: "#171d24",
  compute: "#4aa3df",
  exposed: "#ff8c42",
  memory: "#d98cb8",
  queue: "#f0b84a",
  network: "#4aa3df",
  reduction: "#2fbf94",
  wait: "#76828f",
  bubble: "#e0b93c",
  skew: "#a597dd",
  parts: ["#2fbf94", "#f0b84a", "#8fd0f5"],
  dims: ["#2fbf94", "#b48ad6", "#d9ac3a", "#6fc0e6", "#e084a6", "#a3c65a", "#a99ad6", "#bdbdbd"],
  ramp: ["#2a4560", "#3f7fb5", "#86bfe8", "#f2f8ff"],
};

/** The colour of a dimension of the fabric, by its number; the same in every chart. */
export function dimension(look: Look, place: number): string {
  return look.dims[place % look.dims.length];
}

/** A colour between those of `ramp`, for a share from 0 to 1. */
export function shade(look: Look, share: number): string {
  const at = Math.min(Math.max(share, 0), 1) * (look.ramp.length - 1);
  const low = Math.min(Math.floor(at), look.ramp.length - 2);
  const mix = at - low;
  const [from, to] = [look.ramp[low], look.ramp[low + 1]].map((each) =>
    [1, 3, 5].map((start) => parseInt(each.slice(start, start + 2), 16)),
  );
  const part = from.map((value, index) => Math.round(value + (to[index] - value) * mix));
  return `rgb(${part.join(",")})`;
}
