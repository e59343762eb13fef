//! The grid of ranks: which dimensions hold the parts of a model, its copies, and the stages of a pipeline.
//!
//! A kind of parallelism claims dimensions by name, or claims a number of ranks. Counted ranks fill the unclaimed
//! dimensions, lowest first, one kind after the other ([`Parallel::order`]). A dimension that a kind fills only
//! partly is split, and the next kind continues in the rest of it (hier2021 III).

use crate::layer::{Axes, Kind, Parallel};
use crate::role::Role;
use syncline_diagnostics::{Code, Diagnostic};

/// One axis that ranks can be laid out along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridAxis {
    /// The name that a parallelisation claims it by.
    pub name: String,
    /// Ranks along it.
    pub size: u32,
    /// The fabric's dimension that it runs along, if any.
    pub dim: Option<u16>,
}

/// The grid of ranks that a parallelisation needs: the fabric's dimensions, some of them split because a degree fills
/// them only partly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Axis sizes, lowest first.
    pub sizes: Vec<u32>,
    /// Fabric dimension of each axis.
    pub dims: Vec<Option<u16>>,
    /// Axes of the model-parallel groups.
    pub model: Vec<usize>,
    /// Axes of the data-parallel groups.
    pub data: Vec<usize>,
    /// Axes of the stages of a pipeline.
    pub pipeline: Vec<usize>,
}

/// A dimension, or a part of one.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Index of the dimension.
    of: usize,
    size: u32,
    kind: Option<Kind>,
}

impl Grid {
    /// Lays `parallel` out on axes, lowest first.
    ///
    /// # Errors
    /// Unknown dimension names, dimensions claimed by two kinds or by none, degrees that do not divide.
    pub fn new(dims: &[GridAxis], parallel: &Parallel) -> Result<Self, Diagnostic> {
        let order = &parallel.order.0;
        if order.len() != 3 || Kind::ALL.iter().any(|kind| !order.contains(kind)) {
            let found: Vec<&str> = order.iter().map(|kind| kind.name()).collect();
            return Err(bad("order", "the order must name each kind of parallelism once".to_owned())
                .found(format!("[{}]", found.join(", ")))
                .allowed("model, data and pipeline in any order"));
        }
        let mut parts = named(dims, parallel)?;
        let free: u64 =
            parts.iter().filter(|part| part.kind.is_none()).map(|part| u64::from(part.size)).product();
        let counts = counts(parallel, free)?;
        for &kind in order {
            match counts[kind as usize] {
                Count::None => {}
                Count::Ranks(degree) => fill(&mut parts, kind, degree)?,
                Count::Uneven => return Err(uneven(parallel, kind, free)),
            }
        }
        if let Some(part) = parts.iter().find(|part| part.size > 1 && part.kind.is_none()) {
            let name = &dims[part.of].name;
            return Err(bad(
                "data",
                format!("dimension `{name}` is used for neither model nor data parallelism"),
            )
            .help("add it to `data`, or write `data: rest`"));
        }
        let axes = |kind| (0..parts.len()).filter(|&at| parts[at].kind == Some(kind)).collect();
        Ok(Self {
            model: axes(Kind::Model),
            data: axes(Kind::Data),
            pipeline: axes(Kind::Pipeline),
            sizes: parts.iter().map(|part| part.size).collect(),
            dims: parts.iter().map(|part| dims[part.of].dim).collect(),
        })
    }

    /// The groups along `axes`.
    pub fn role(&self, name: &str, axes: &[usize]) -> Role {
        Role::grid(name, &self.sizes, &self.dims, axes)
    }

    /// Number of ranks along `axes`.
    pub fn degree(&self, axes: &[usize]) -> u32 {
        axes.iter().map(|&axis| self.sizes[axis]).product()
    }
}

fn bad(key: &str, message: String) -> Diagnostic {
    Diagnostic::error(Code::BadWorkload, message).key(format!("workload.parallel.{key}"))
}

const fn claim(parallel: &Parallel, kind: Kind) -> &Axes {
    match kind {
        Kind::Model => &parallel.model,
        Kind::Data => &parallel.data,
        Kind::Pipeline => &parallel.pipeline,
    }
}

/// The dimensions, marked with the kinds that claim them by name.
fn named(dims: &[GridAxis], parallel: &Parallel) -> Result<Vec<Part>, Diagnostic> {
    let mut parts: Vec<Part> =
        dims.iter().enumerate().map(|(of, dim)| Part { of, size: dim.size, kind: None }).collect();
    let twice = |first: Kind, second: Kind, at: usize| {
        let name = &dims[at].name;
        bad(
            second.name(),
            format!("dimension `{name}` is used for both {} and {} parallelism", first.name(), second.name()),
        )
        .help("give each dimension to one of them")
    };
    for kind in [Kind::Model, Kind::Pipeline, Kind::Data] {
        let claimed: Vec<usize> = match claim(parallel, kind) {
            Axes::All => (0..dims.len()).collect(),
            Axes::Dims(names) => find(dims, names, kind)?,
            _ => continue,
        };
        for at in claimed {
            if let Some(first) = parts[at].kind.replace(kind) {
                return Err(twice(first, kind, at));
            }
        }
    }
    for kind in Kind::ALL {
        let (Axes::Degree(degree), true) = (claim(parallel, kind), parts.iter().all(|p| p.kind.is_some()))
        else {
            continue;
        };
        if let (true, Some(part)) = (*degree > 1, parts.first()) {
            let other = part.kind.expect("all are claimed");
            return Err(twice(kind.min(other), kind.max(other), 0));
        }
    }
    Ok(parts)
}

/// The indices of named dimensions.
fn find(dims: &[GridAxis], names: &[String], kind: Kind) -> Result<Vec<usize>, Diagnostic> {
    let mut axes = Vec::new();
    for name in names {
        let axis = dims.iter().position(|axis| axis.name == *name).ok_or_else(|| {
            Diagnostic::error(Code::BadWorkload, "no such dimension")
                .key(format!("workload.parallel.{}", kind.name()))
                .one_of(name, dims.iter().map(|axis| axis.name.as_str()))
        })?;
        if axes.contains(&axis) {
            return Err(bad(kind.name(), format!("dimension `{name}` is named twice")));
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// The number of ranks that a kind takes from the dimensions that are not claimed by name.
#[derive(Clone, Copy, Debug)]
enum Count {
    None,
    Ranks(u32),
    /// The remaining ranks, which are not a whole number.
    Uneven,
}

/// The counts by kind.
fn counts(parallel: &Parallel, free: u64) -> Result<[Count; 3], Diagnostic> {
    let mut counts = [Count::None; 3];
    let mut counted = Vec::new();
    for kind in Kind::ALL {
        if let Axes::Degree(degree) = *claim(parallel, kind) {
            if degree == 0 {
                return Err(bad(kind.name(), "a degree must be at least 1".to_owned()));
            }
            counts[kind as usize] = Count::Ranks(degree);
            counted.push((kind, degree));
        }
    }
    let asked = counted.iter().fold(1u64, |product, &(_, degree)| product.saturating_mul(degree.into()));
    // Copies take the remaining ranks before parts of a model do.
    let rest = [Kind::Data, Kind::Model, Kind::Pipeline];
    let rest = rest.into_iter().find(|&kind| *claim(parallel, kind) == Axes::Rest);
    match rest {
        Some(kind) if free.is_multiple_of(asked) => {
            counts[kind as usize] = Count::Ranks((free / asked) as u32);
        }
        Some(kind) => counts[kind as usize] = Count::Uneven,
        None if counted.len() > 1 && asked != free => {
            let said: Vec<String> =
                counted.iter().map(|(kind, degree)| format!("{} {degree}", kind.name())).collect();
            return Err(Diagnostic::error(
                Code::RankMismatch,
                format!("{} does not equal the {free} NPUs of the fabric", said.join(" x ")),
            )
            .key("workload.parallel")
            .help("give degrees whose product is the number of ranks, or omit one degree: it follows from the others"));
        }
        None => {}
    }
    Ok(counts)
}

/// The error if the counted ranks leave no whole number to `rest`.
fn uneven(parallel: &Parallel, rest: Kind, free: u64) -> Diagnostic {
    let counted = Kind::ALL.into_iter().filter_map(|kind| match *claim(parallel, kind) {
        Axes::Degree(degree) if kind != rest => Some((kind, degree)),
        _ => None,
    });
    let counted: Vec<(Kind, u32)> = counted.collect();
    let key = counted.last().map_or(rest, |&(kind, _)| kind).name();
    match counted[..] {
        [(_, degree)] => bad(key, format!("{degree} does not divide the {free} NPUs of the fabric"))
            .help(format!("give a degree that divides {free}")),
        _ => {
            let said: Vec<String> =
                counted.iter().map(|(kind, degree)| format!("{} {degree}", kind.name())).collect();
            bad(key, format!("{} does not divide the {free} NPUs of the fabric", said.join(" x ")))
                .help(format!("give degrees whose product divides {free}"))
        }
    }
}

/// Gives `degree` ranks of the lowest free dimensions to `kind`.
fn fill(parts: &mut Vec<Part>, kind: Kind, degree: u32) -> Result<(), Diagnostic> {
    let mut left = degree;
    while left > 1 {
        let Some(at) = parts.iter().position(|part| part.kind.is_none()) else {
            return Err(bad(kind.name(), format!("{degree} ranks are more than the fabric has")));
        };
        let size = parts[at].size;
        if left.is_multiple_of(size) {
            left /= size;
        } else if size.is_multiple_of(left) {
            parts[at].size = left;
            parts.insert(at + 1, Part { size: size / left, ..parts[at] });
            left = 1;
        } else {
            return Err(bad(kind.name(), format!("{degree} ranks do not fill the dimensions evenly"))
                .note(format!("{left} remain to be placed on a dimension of {size}"))
                .help("use a degree that divides, or is a multiple of, each dimension that it reaches"));
        }
        parts[at].kind = Some(kind);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Kinds;

    fn dims() -> Vec<GridAxis> {
        let axis = |name: &str, size, dim| GridAxis { name: name.to_owned(), size, dim: Some(dim) };
        vec![axis("local", 8, 0), axis("rack", 128, 1)]
    }
    fn parallel(model: Axes, data: Axes) -> Parallel {
        Parallel { model, data, ..Parallel::default() }
    }

    #[test]
    fn a_degree_splits_the_dimension_that_it_fills_partly() {
        // GPT-3 with model parallelism over 16 on 8x128 (hier2021): dimension 2 is shared.
        let grid = Grid::new(&dims(), &parallel(Axes::Degree(16), Axes::Rest)).unwrap();
        assert_eq!(grid.sizes, [8, 2, 64]);
        assert_eq!(grid.dims, [Some(0), Some(1), Some(1)]);
        assert_eq!((grid.model.clone(), grid.data.clone()), (vec![0, 1], vec![2]));
        assert_eq!((grid.degree(&grid.model), grid.degree(&grid.data)), (16, 64));
    }

    #[test]
    fn bad_parallelisations_are_refused() {
        let names = |names: &[&str]| Axes::Dims(names.iter().map(|&n| n.to_owned()).collect());
        for (model, data, message) in [
            (Axes::Degree(3), Axes::Rest, "do not fill"),
            (Axes::Degree(2048), Axes::Rest, "more than the fabric has"),
            (Axes::Degree(0), Axes::Rest, "at least 1"),
            (Axes::Degree(2), Axes::Degree(2), "does not equal the 1024 NPUs"),
            (names(&["locla"]), Axes::Rest, "no such dimension"),
            (names(&["local"]), Axes::All, "both"),
            (names(&["local"]), Axes::None, "neither"),
            (names(&["local", "local"]), Axes::Rest, "named twice"),
        ] {
            let error = Grid::new(&dims(), &parallel(model, data)).unwrap_err();
            assert!(error.message.contains(message), "{error}");
        }
    }

    fn axes(sizes: &[u32]) -> Vec<GridAxis> {
        let axis = |(at, &size)| GridAxis { name: format!("dim{at}"), size, dim: Some(at as u16) };
        (0u32..).zip(sizes).map(axis).collect()
    }

    /// Sizes of the axes of a kind, by dimension.
    fn along(grid: &Grid, axes: &[usize], dims: usize) -> Vec<u32> {
        let mut sizes = vec![1; dims];
        axes.iter().for_each(|&axis| sizes[usize::from(grid.dims[axis].unwrap())] *= grid.sizes[axis]);
        sizes
    }

    #[test]
    fn the_groups_of_hier2021_on_its_three_networks() {
        // Model-parallel and data-parallel ranks by dimension. If neither kind fills a dimension, they share it.
        for (sizes, degree, model, data) in [
            (&[8, 128][..], 16, &[8, 2][..], &[1, 64][..]),
            (&[8, 8, 16], 16, &[8, 2, 1], &[1, 4, 16]),
            (&[2, 8, 8, 8], 16, &[2, 8, 1, 1], &[1, 1, 8, 8]),
            (&[8, 128], 128, &[8, 16], &[1, 8]),
            (&[8, 8, 16], 128, &[8, 8, 2], &[1, 1, 8]),
            (&[2, 8, 8, 8], 128, &[2, 8, 8, 1], &[1, 1, 1, 8]),
            (&[8, 128], 1, &[1, 1], &[8, 128]),
        ] {
            let grid = Grid::new(&axes(sizes), &parallel(Axes::Degree(degree), Axes::Rest)).unwrap();
            assert_eq!(along(&grid, &grid.model, sizes.len()), model);
            assert_eq!(along(&grid, &grid.data, sizes.len()), data);
        }
    }

    #[test]
    fn three_kinds_lie_in_the_requested_order() {
        let with = |order: [Kind; 3]| Parallel {
            pipeline: Axes::Degree(4),
            order: Kinds(order.to_vec()),
            ..parallel(Axes::Degree(4), Axes::Rest)
        };
        let (model, data, pipeline) = (Kind::Model, Kind::Data, Kind::Pipeline);
        // 8 x 16: four parts of a model, eight copies, four stages.
        for (order, sizes, kinds) in [
            ([model, data, pipeline], &[4, 2, 4, 4][..], &[model, data, data, pipeline][..]),
            ([model, pipeline, data], &[4, 2, 2, 8], &[model, pipeline, pipeline, data]),
            ([pipeline, data, model], &[4, 2, 4, 4], &[pipeline, data, data, model]),
        ] {
            let grid = Grid::new(&axes(&[8, 16]), &with(order)).unwrap();
            assert_eq!(grid.sizes, sizes);
            let of = |axes: &[usize], kind| axes.iter().map(move |&axis| (axis, kind)).collect::<Vec<_>>();
            let mut all =
                [of(&grid.model, model), of(&grid.data, data), of(&grid.pipeline, pipeline)].concat();
            all.sort_unstable();
            assert_eq!(all.into_iter().map(|(_, kind)| kind).collect::<Vec<_>>(), kinds);
        }
    }

    #[test]
    fn named_and_counted_dimensions_can_be_combined() {
        let names = |names: &[&str]| Axes::Dims(names.iter().map(|&n| n.to_owned()).collect());
        let mixed = Parallel { pipeline: names(&["dim1"]), ..parallel(Axes::Degree(4), Axes::Rest) };
        let grid = Grid::new(&axes(&[8, 2, 8]), &mixed).unwrap();
        assert_eq!(grid.sizes, [4, 2, 2, 8]);
        assert_eq!((&grid.model[..], &grid.data[..], &grid.pipeline[..]), (&[0][..], &[1, 3][..], &[2][..]));
    }

    #[test]
    fn bad_pipelines_are_refused() {
        let names = |names: &[&str]| Axes::Dims(names.iter().map(|&n| n.to_owned()).collect());
        let base = || Parallel { pipeline: Axes::Degree(4), ..parallel(Axes::Degree(4), Axes::Rest) };
        let order = |kinds: &[Kind]| Kinds(kinds.to_vec());
        for (parallel, key, message) in [
            (Parallel { pipeline: Axes::Degree(0), ..base() }, "pipeline", "at least 1"),
            (
                Parallel { pipeline: Axes::Degree(3), ..base() },
                "pipeline",
                "model 4 x pipeline 3 does not divide the 128",
            ),
            (Parallel { pipeline: Axes::Degree(64), ..base() }, "pipeline", "pipeline 64 does not divide"),
            (
                Parallel { data: Axes::Degree(3), ..base() },
                "",
                "model 4 x data 3 x pipeline 4 does not equal the 128",
            ),
            (
                Parallel { pipeline: names(&["dim0", "dim1"]), ..base() },
                "pipeline",
                "both model and pipeline",
            ),
            (Parallel { pipeline: Axes::All, data: Axes::All, ..base() }, "data", "both pipeline and data"),
            (Parallel { pipeline: names(&["dim2"]), ..base() }, "pipeline", "no such dimension"),
            (Parallel { order: order(&[Kind::Model, Kind::Data]), ..base() }, "order", "name each kind"),
            (Parallel { order: order(&[Kind::Model; 3]), ..base() }, "order", "name each kind"),
        ] {
            let error = Grid::new(&axes(&[8, 16]), &parallel).unwrap_err();
            assert!(error.message.contains(message), "{error}");
            let whole = if key.is_empty() {
                "workload.parallel".to_owned()
            } else {
                format!("workload.parallel.{key}")
            };
            assert_eq!(error.key.as_deref(), Some(&*whole), "{error}");
        }
    }
}
