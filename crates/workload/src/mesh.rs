//! The mesh: the ranks of a job along named axes, and its place on the fabric.
//!
//! An axis of the mesh, such as `tensor` or `data`, takes dimensions of the fabric by name, or a number of ranks.
//! Numbers fill the unclaimed dimensions, lowest first, one axis after the other. A dimension that an axis fills only
//! partly is split, and the next axis continues in the rest of it (hier2021 III).
//!
//! Groups lie along one axis or several. Ranks of a group are consecutive along the lowest axis, and a stride apart
//! along a higher one. A group that fills part of an axis is expressed by a finer mesh: `inner` 2 and `outer` 4 in
//! place of one axis of 8.

use crate::parallel::{Axes, DATA, MeshSpec, PIPELINE, TENSOR};
use crate::role::Role;
use syncline_diagnostics::{Code, Diagnostic};

/// One axis of the fabric that ranks can be laid out along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricAxis {
    /// The name that an axis of the mesh claims it by.
    pub name: String,
    /// Ranks along it.
    pub size: u32,
    /// The fabric's dimension that it runs along, if any.
    pub dim: Option<u16>,
}

/// Named axes, laid out on the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Sizes of the fabric's axes, lowest first. An axis that an axis of the mesh fills only partly is split.
    pub sizes: Vec<u32>,
    /// The fabric's dimension of each of `sizes`.
    pub dims: Vec<Option<u16>>,
    /// The fabric's axis that each of `sizes` is a part of.
    of: Vec<usize>,
    /// Names of the axes, in the order of messages, with their indices into `sizes`, ascending.
    axes: Vec<(String, Vec<usize>)>,
}

/// An axis of the fabric, or a part of one.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Index of the fabric's axis.
    of: usize,
    size: u32,
    /// Index of the mesh's axis that takes it.
    taken: Option<usize>,
}

impl Mesh {
    /// Lays the axes of `spec` out on the fabric's.
    ///
    /// # Errors
    /// Unknown names, dimensions claimed by two axes or by none, degrees that do not divide, an order that does not
    /// name every axis once.
    pub fn place(fabric: &[FabricAxis], spec: &MeshSpec) -> Result<Self, Diagnostic> {
        let pieces =
            fabric.iter().enumerate().map(|(of, axis)| Piece { of, size: axis.size, taken: None }).collect();
        Claims::new(spec, "workload.parallel".to_owned())?.place(fabric, pieces)
    }

    /// Lays another mesh over the same ranks, for some of the layers. Stages of a pipeline are those of this mesh.
    ///
    /// # Errors
    /// As [`Mesh::place`]. `name` is that of the other mesh.
    pub fn place_beside(
        &self,
        fabric: &[FabricAxis],
        name: &str,
        spec: &MeshSpec,
    ) -> Result<Self, Diagnostic> {
        let key = format!("workload.parallel.meshes.{name}");
        if !matches!(spec.pipeline, Axes::None) {
            return Err(Diagnostic::error(
                Code::BadWorkload,
                "a further mesh has no stages: those of `parallel.pipeline` hold all layers",
            )
            .key(format!("{key}.pipeline"))
            .help("remove the key"));
        }
        let stages = self.along(PIPELINE);
        let mut claims = Claims::new(spec, key)?;
        let pipeline = claims.index(PIPELINE);
        // The pieces of this mesh, in which only the stages are taken. Those of one dimension become one again.
        let mut pieces: Vec<Piece> = Vec::new();
        let (mut of, mut reached) = (0, 1);
        for (at, &size) in self.sizes.iter().enumerate() {
            let taken = stages.contains(&at).then_some(pipeline);
            match pieces.last_mut() {
                Some(last) if reached > 1 && last.taken.is_none() && taken.is_none() => last.size *= size,
                _ => pieces.push(Piece { of, size, taken }),
            }
            reached *= size;
            if reached == fabric[of].size {
                (of, reached) = (of + 1, 1);
            }
        }
        claims.staged = true;
        claims.place(fabric, pieces)
    }

    /// The axes along which `name` lies, ascending; empty if the mesh has no such axis.
    pub fn along(&self, name: &str) -> &[usize] {
        self.axes.iter().find(|(known, _)| known == name).map_or(&[], |(_, along)| along)
    }

    /// Whether the mesh has an axis of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Names of the axes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|(name, _)| name.as_str())
    }

    /// Number of ranks along an axis; 1 if there is none of this name.
    pub fn degree(&self, name: &str) -> u32 {
        self.along(name).iter().map(|&at| self.sizes[at]).product()
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.sizes.iter().product()
    }

    /// The groups of ranks that differ only along axes of these names. Neighbouring parts of one dimension of the fabric
    /// count as one, so that a collective crosses them in one phase.
    pub fn groups<S: AsRef<str>>(&self, name: &str, axes: &[S]) -> Role {
        let along: Vec<usize> =
            axes.iter().flat_map(|axis| self.along(axis.as_ref()).iter().copied()).collect();
        let (mut sizes, mut dims, mut inside) = (Vec::new(), Vec::new(), Vec::new());
        for (at, &size) in self.sizes.iter().enumerate() {
            let member = along.contains(&at);
            match sizes.last_mut() {
                Some(last) if member && inside.last() == Some(&true) && self.of[at] == self.of[at - 1] => {
                    *last *= size;
                }
                _ => {
                    sizes.push(size);
                    dims.push(self.dims[at]);
                    inside.push(member);
                }
            }
        }
        let along: Vec<usize> = (0..sizes.len()).filter(|&at| inside[at]).collect();
        Role::grid(name, &sizes, &dims, &along)
    }

    /// The coordinate of `rank` along an axis.
    pub fn coordinate(&self, rank: u32, name: &str) -> u32 {
        let (mut below, mut coordinate, mut weight) = (1, 0, 1);
        let along = self.along(name);
        for (at, &size) in self.sizes.iter().enumerate() {
            if along.contains(&at) {
                coordinate += rank / below % size * weight;
                weight *= size;
            }
            below *= size;
        }
        coordinate
    }
}

/// What the axes of a mesh claim.
struct Claims<'a> {
    /// In the order of messages: tensor, further axes, data, pipeline.
    axes: Vec<(&'a str, &'a Axes)>,
    /// Indices of axes, lowest first.
    order: Vec<usize>,
    /// Where they are given.
    key: String,
    /// Whether the stages of another mesh are already placed.
    staged: bool,
}

/// The number of ranks that an axis takes from the dimensions that are not claimed by name.
#[derive(Clone, Copy, Debug)]
enum Count {
    None,
    Ranks(u32),
    /// The remaining ranks, which are not a whole number.
    Uneven,
}

impl<'a> Claims<'a> {
    fn new(spec: &'a MeshSpec, key: String) -> Result<Self, Diagnostic> {
        let further = spec.axes.iter().map(|(name, axes)| (name.as_str(), axes));
        let mut axes = vec![(TENSOR, &spec.tensor)];
        axes.extend(further);
        axes.extend([(DATA, &spec.data), (PIPELINE, &spec.pipeline)]);
        let claims = Self { order: (0..axes.len()).collect(), axes, key, staged: false };
        if let Some(twice) = spec.axes.keys().find(|name| [TENSOR, DATA, PIPELINE].contains(&name.as_str())) {
            return Err(Diagnostic::error(Code::BadWorkload, "this axis has a key of its own")
                .key(format!("{}.axes.{twice}", claims.key))
                .help(format!("write `{twice}: ...` directly under `parallel`")));
        }
        if spec.order.is_empty() {
            return Ok(claims);
        }
        let known = |name: &String| claims.axes.iter().position(|(axis, _)| axis == name);
        let order: Vec<usize> = spec.order.iter().filter_map(known).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if order.len() != spec.order.len() || sorted != claims.order {
            return Err(claims
                .bad("order", "the order must name each axis once".to_owned())
                .found(format!("[{}]", spec.order.join(", ")))
                .allowed(format!("{} in any order", listed(claims.axes.iter().map(|(name, _)| *name)))));
        }
        Ok(Self { order, ..claims })
    }

    fn index(&self, name: &str) -> usize {
        self.axes.iter().position(|(axis, _)| *axis == name).expect("every mesh has this axis")
    }

    fn name(&self, axis: usize) -> &'a str {
        self.axes[axis].0
    }

    /// The key of an axis.
    fn at(&self, axis: usize) -> String {
        let name = self.name(axis);
        if [TENSOR, DATA, PIPELINE].contains(&name) { name.to_owned() } else { format!("axes.{name}") }
    }

    fn bad(&self, key: &str, message: String) -> Diagnostic {
        Diagnostic::error(Code::BadWorkload, message).key(format!("{}.{key}", self.key))
    }

    fn place(self, fabric: &[FabricAxis], mut pieces: Vec<Piece>) -> Result<Mesh, Diagnostic> {
        self.named(fabric, &mut pieces)?;
        let free: u64 =
            pieces.iter().filter(|piece| piece.taken.is_none()).map(|piece| u64::from(piece.size)).product();
        let counts = self.counts(free)?;
        for &axis in &self.order {
            match counts[axis] {
                Count::None => {}
                Count::Ranks(degree) => self.fill(&mut pieces, axis, degree)?,
                Count::Uneven => return Err(self.uneven(axis, free)),
            }
        }
        if let Some(piece) = pieces.iter().find(|piece| piece.size > 1 && piece.taken.is_none()) {
            let name = &fabric[piece.of].name;
            let message = match self.axes.len() {
                3 => format!("dimension `{name}` is used for neither tensor nor data parallelism"),
                _ => format!("no axis takes dimension `{name}`"),
            };
            return Err(self.bad(DATA, message).help("add it to `data`, or write `data: rest`"));
        }
        let along = |axis| (0..pieces.len()).filter(|&at| pieces[at].taken == Some(axis)).collect();
        Ok(Mesh {
            axes: (0..self.axes.len()).map(|axis| (self.name(axis).to_owned(), along(axis))).collect(),
            sizes: pieces.iter().map(|piece| piece.size).collect(),
            dims: pieces.iter().map(|piece| fabric[piece.of].dim).collect(),
            of: pieces.iter().map(|piece| piece.of).collect(),
        })
    }

    /// Marks the pieces that axes claim by name.
    fn named(&self, fabric: &[FabricAxis], pieces: &mut [Piece]) -> Result<(), Diagnostic> {
        let twice = |first: usize, second: usize, at: &Piece| {
            let (dimension, name) = (&fabric[at.of].name, |axis| self.name(axis));
            self.bad(
                &self.at(second),
                format!("dimension `{dimension}` is used for both {} and {}", name(first), name(second)),
            )
            .help("give each dimension to one of them")
        };
        // Data comes last: it takes what the others leave.
        let data = self.index(DATA);
        let others = (0..self.axes.len()).filter(|&axis| axis != data);
        for axis in others.chain([data]) {
            let claimed: Vec<usize> = match self.axes[axis].1 {
                Axes::All => (0..fabric.len()).collect(),
                Axes::Dims(names) => self.find(fabric, names, axis)?,
                _ => continue,
            };
            for piece in pieces.iter_mut().filter(|piece| claimed.contains(&piece.of)) {
                match piece.taken {
                    Some(first) if !self.staged || first != self.index(PIPELINE) => {
                        return Err(twice(first, axis, piece));
                    }
                    Some(_) => {}
                    None => piece.taken = Some(axis),
                }
            }
        }
        if pieces.iter().any(|piece| piece.taken.is_none()) {
            return Ok(());
        }
        for axis in 0..self.axes.len() {
            if let (Axes::Degree(2..), Some(piece)) = (self.axes[axis].1, pieces.first()) {
                let other = piece.taken.expect("all are taken");
                return Err(twice(axis.min(other), axis.max(other), piece));
            }
        }
        Ok(())
    }

    /// The indices of named dimensions.
    fn find(&self, fabric: &[FabricAxis], names: &[String], axis: usize) -> Result<Vec<usize>, Diagnostic> {
        let mut found = Vec::new();
        for name in names {
            let at = fabric.iter().position(|each| each.name == *name).ok_or_else(|| {
                self.bad(&self.at(axis), "no such dimension".to_owned())
                    .one_of(name, fabric.iter().map(|each| each.name.as_str()))
            })?;
            if found.contains(&at) {
                return Err(self.bad(&self.at(axis), format!("dimension `{name}` is named twice")));
            }
            found.push(at);
        }
        Ok(found)
    }

    /// The counted ranks of each axis.
    fn counts(&self, free: u64) -> Result<Vec<Count>, Diagnostic> {
        let mut counts = vec![Count::None; self.axes.len()];
        let mut counted = Vec::new();
        for (axis, (_, claim)) in self.axes.iter().enumerate() {
            if let Axes::Degree(degree) = **claim {
                if degree == 0 {
                    return Err(self.bad(&self.at(axis), "a degree must be at least 1".to_owned()));
                }
                counts[axis] = Count::Ranks(degree);
                counted.push((axis, degree));
            }
        }
        let asked = counted.iter().fold(1u64, |product, &(_, degree)| product.saturating_mul(degree.into()));
        // Copies of the model take the remaining ranks before its parts do.
        let (data, pipeline) = (self.index(DATA), self.index(PIPELINE));
        let others = (0..self.axes.len()).filter(|&axis| axis != data && axis != pipeline);
        let rest =
            [data].into_iter().chain(others).chain([pipeline]).find(|&axis| *self.axes[axis].1 == Axes::Rest);
        match rest {
            Some(axis) if free.is_multiple_of(asked) => counts[axis] = Count::Ranks((free / asked) as u32),
            Some(axis) => counts[axis] = Count::Uneven,
            None if counted.len() > 1 && asked != free => {
                return Err(Diagnostic::error(
                    Code::RankMismatch,
                    format!("{} does not equal the {free} NPUs of the fabric", self.product(&counted)),
                )
                .key(self.key.clone())
                .help("give degrees whose product is the number of ranks, or omit one degree: it follows from the others"));
            }
            None => {}
        }
        Ok(counts)
    }

    fn product(&self, counted: &[(usize, u32)]) -> String {
        let said: Vec<String> =
            counted.iter().map(|&(axis, degree)| format!("{} {degree}", self.name(axis))).collect();
        said.join(" x ")
    }

    /// The error if the counted ranks leave no whole number to the axis `rest`.
    fn uneven(&self, rest: usize, free: u64) -> Diagnostic {
        let counted: Vec<(usize, u32)> = self
            .axes
            .iter()
            .enumerate()
            .filter_map(|(axis, (_, claim))| match **claim {
                Axes::Degree(degree) if axis != rest => Some((axis, degree)),
                _ => None,
            })
            .collect();
        let key = self.at(counted.last().map_or(rest, |&(axis, _)| axis));
        match counted[..] {
            [(_, degree)] => self
                .bad(&key, format!("{degree} does not divide the {free} NPUs of the fabric"))
                .help(format!("give a degree that divides {free}")),
            _ => {
                let said = self.product(&counted);
                self.bad(&key, format!("{said} does not divide the {free} NPUs of the fabric"))
                    .help(format!("give degrees whose product divides {free}"))
            }
        }
    }

    /// Gives `degree` ranks of the lowest free dimensions to an axis.
    fn fill(&self, pieces: &mut Vec<Piece>, axis: usize, degree: u32) -> Result<(), Diagnostic> {
        let mut left = degree;
        while left > 1 {
            let Some(at) = pieces.iter().position(|piece| piece.taken.is_none()) else {
                return Err(self.bad(&self.at(axis), format!("{degree} ranks are more than the fabric has")));
            };
            let size = pieces[at].size;
            if left.is_multiple_of(size) {
                left /= size;
            } else if size.is_multiple_of(left) {
                pieces[at].size = left;
                pieces.insert(at + 1, Piece { size: size / left, ..pieces[at] });
                left = 1;
            } else {
                return Err(self
                    .bad(&self.at(axis), format!("{degree} ranks do not fill the dimensions evenly"))
                    .note(format!("{left} remain to be placed on a dimension of {size}"))
                    .help("use a degree that divides, or is a multiple of, each dimension that it reaches"));
            }
            pieces[at].taken = Some(axis);
        }
        Ok(())
    }
}

/// Names as a list: `a, b and c`.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims() -> Vec<FabricAxis> {
        let axis = |name: &str, size, dim| FabricAxis { name: name.to_owned(), size, dim: Some(dim) };
        vec![axis("local", 8, 0), axis("rack", 128, 1)]
    }
    fn spec(tensor: Axes, data: Axes) -> MeshSpec {
        MeshSpec { tensor, data, ..MeshSpec::default() }
    }

    #[test]
    fn a_degree_splits_the_dimension_that_it_fills_partly() {
        // GPT-3 with model parallelism over 16 on 8x128 (hier2021): dimension 2 is shared.
        let mesh = Mesh::place(&dims(), &spec(Axes::Degree(16), Axes::Rest)).unwrap();
        assert_eq!(mesh.sizes, [8, 2, 64]);
        assert_eq!(mesh.dims, [Some(0), Some(1), Some(1)]);
        assert_eq!((mesh.along(TENSOR), mesh.along(DATA)), (&[0, 1][..], &[2][..]));
        assert_eq!((mesh.degree(TENSOR), mesh.degree(DATA)), (16, 64));
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
            let error = Mesh::place(&dims(), &spec(model, data)).unwrap_err();
            assert!(error.message.contains(message), "{error}");
        }
    }

    fn fabric(sizes: &[u32]) -> Vec<FabricAxis> {
        let axis = |(at, &size)| FabricAxis { name: format!("dim{at}"), size, dim: Some(at as u16) };
        (0u32..).zip(sizes).map(axis).collect()
    }

    /// Sizes of the axes of a kind, by dimension.
    fn along(mesh: &Mesh, axes: &[usize], dims: usize) -> Vec<u32> {
        let mut sizes = vec![1; dims];
        axes.iter().for_each(|&axis| sizes[usize::from(mesh.dims[axis].unwrap())] *= mesh.sizes[axis]);
        sizes
    }

    #[test]
    fn groups_match_hier2021_on_its_three_networks() {
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
            let mesh = Mesh::place(&fabric(sizes), &spec(Axes::Degree(degree), Axes::Rest)).unwrap();
            assert_eq!(along(&mesh, mesh.along(TENSOR), sizes.len()), model);
            assert_eq!(along(&mesh, mesh.along(DATA), sizes.len()), data);
        }
    }

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn axes_lie_in_the_requested_order() {
        let with = |order: &[&str]| MeshSpec {
            pipeline: Axes::Degree(4),
            order: names(order),
            ..spec(Axes::Degree(4), Axes::Rest)
        };
        // 8 x 16: four parts of a model, eight copies, four stages.
        for (order, sizes, axes) in [
            ([TENSOR, DATA, PIPELINE], &[4, 2, 4, 4][..], &[TENSOR, DATA, DATA, PIPELINE][..]),
            ([TENSOR, PIPELINE, DATA], &[4, 2, 2, 8], &[TENSOR, PIPELINE, PIPELINE, DATA]),
            ([PIPELINE, DATA, TENSOR], &[4, 2, 4, 4], &[PIPELINE, DATA, DATA, TENSOR]),
        ] {
            let mesh = Mesh::place(&fabric(&[8, 16]), &with(&order)).unwrap();
            assert_eq!(mesh.sizes, sizes);
            let of = |name| mesh.along(name).iter().map(move |&at| (at, name)).collect::<Vec<_>>();
            let mut all = [of(TENSOR), of(DATA), of(PIPELINE)].concat();
            all.sort_unstable();
            assert_eq!(all.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), axes);
        }
    }

    #[test]
    fn further_axes_lie_between_tensor_and_data() {
        // Eight ranks a node, four nodes: two parts, four positions along the sequence, four copies.
        let context = MeshSpec {
            axes: [("context".to_owned(), Axes::Degree(4))].into(),
            ..spec(Axes::Degree(2), Axes::Rest)
        };
        let mesh = Mesh::place(&fabric(&[8, 4]), &context).unwrap();
        assert_eq!((&mesh.sizes[..], mesh.degree("context")), (&[2, 4, 4][..], 4));
        // Strided groups, and groups along two axes.
        let strided = mesh.groups("context", &["context"]);
        assert_eq!((strided.groups(), strided.ranks(1)), (8, vec![1, 3, 5, 7]));
        let both = mesh.groups("both", &[DATA, "context"]);
        assert_eq!((both.size(), both.ranks(0)[..6].to_vec()), (16, vec![0, 2, 4, 6, 8, 10]));
        assert_eq!([13, 14].map(|rank| mesh.coordinate(rank, "context")), [2, 3]);
        assert_eq!(mesh.names().collect::<Vec<_>>(), [TENSOR, "context", DATA, PIPELINE]);
    }

    #[test]
    fn two_meshes_share_ranks_and_stages() {
        // Four stages of eight ranks: dense layers on 2 x 4, experts on 1 x 8.
        let dense = MeshSpec { pipeline: Axes::Degree(4), ..spec(Axes::Degree(2), Axes::Rest) };
        let mesh = Mesh::place(&fabric(&[4, 8]), &dense).unwrap();
        let experts = MeshSpec {
            axes: [("expert".to_owned(), Axes::Degree(8))].into(),
            ..spec(Axes::Degree(1), Axes::Rest)
        };
        let experts = mesh.place_beside(&fabric(&[4, 8]), "experts", &experts).unwrap();
        assert_eq!((experts.degree("expert"), experts.degree(DATA), experts.ranks()), (8, 1, 32));
        assert_eq!(experts.groups("expert", &["expert"]).ranks(1), (8..16).collect::<Vec<_>>());
        // The lowest dimension is split by the first mesh; the second takes it whole again.
        assert_eq!((&mesh.sizes[..], &experts.sizes[..]), (&[2, 2, 2, 4][..], &[4, 2, 4][..]));
        for rank in 0..32 {
            assert_eq!(mesh.coordinate(rank, PIPELINE), rank / 8);
            assert_eq!(experts.coordinate(rank, PIPELINE), rank / 8);
        }
        let staged = MeshSpec { pipeline: Axes::Degree(2), ..MeshSpec::default() };
        let error = mesh.place_beside(&fabric(&[4, 8]), "e", &staged).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("workload.parallel.meshes.e.pipeline"));
        let three = spec(Axes::Degree(3), Axes::Rest);
        let error = mesh.place_beside(&fabric(&[4, 8]), "e", &three).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("workload.parallel.meshes.e.tensor"));
        assert!(error.message.contains("do not fill the dimensions evenly"), "{error}");
    }

    #[test]
    fn named_and_counted_dimensions_can_be_combined() {
        let names = |all: &[&str]| Axes::Dims(names(all));
        let mixed = MeshSpec { pipeline: names(&["dim1"]), ..spec(Axes::Degree(4), Axes::Rest) };
        let mesh = Mesh::place(&fabric(&[8, 2, 8]), &mixed).unwrap();
        assert_eq!(mesh.sizes, [4, 2, 2, 8]);
        assert_eq!([TENSOR, DATA, PIPELINE].map(|name| mesh.along(name)), [&[0][..], &[1, 3], &[2]]);
    }

    #[test]
    fn bad_meshes_of_three_axes_are_refused() {
        let dims = |all: &[&str]| Axes::Dims(names(all));
        let base = || MeshSpec { pipeline: Axes::Degree(4), ..spec(Axes::Degree(4), Axes::Rest) };
        let further = |name: &str, axes| MeshSpec { axes: [(name.to_owned(), axes)].into(), ..base() };
        for (spec, key, message) in [
            (MeshSpec { pipeline: Axes::Degree(0), ..base() }, "pipeline", "at least 1"),
            (
                MeshSpec { pipeline: Axes::Degree(3), ..base() },
                "pipeline",
                "tensor 4 x pipeline 3 does not divide the 128",
            ),
            (MeshSpec { pipeline: Axes::Degree(64), ..base() }, "pipeline", "pipeline 64 does not divide"),
            (
                MeshSpec { data: Axes::Degree(3), ..base() },
                "",
                "tensor 4 x data 3 x pipeline 4 does not equal the 128",
            ),
            (
                MeshSpec { pipeline: dims(&["dim0", "dim1"]), ..base() },
                "pipeline",
                "both tensor and pipeline",
            ),
            (MeshSpec { pipeline: Axes::All, data: Axes::All, ..base() }, "data", "both pipeline and data"),
            (MeshSpec { pipeline: dims(&["dim2"]), ..base() }, "pipeline", "no such dimension"),
            (MeshSpec { order: names(&[TENSOR, DATA]), ..base() }, "order", "name each axis once"),
            (MeshSpec { order: names(&[TENSOR; 3]), ..base() }, "order", "name each axis once"),
            (
                MeshSpec { order: names(&[TENSOR, DATA, PIPELINE, "x"]), ..base() },
                "order",
                "name each axis once",
            ),
            (further("data", Axes::Degree(2)), "axes.data", "a key of its own"),
            (further("context", Axes::Degree(0)), "axes.context", "at least 1"),
            (further("context", Axes::Degree(3)), "axes.context", "3 ranks do not fill"),
            (further("context", dims(&["dim7"])), "axes.context", "no such dimension"),
            (further("context", dims(&["dim0", "dim1"])), "axes.context", "both tensor and context"),
        ] {
            let error = Mesh::place(&fabric(&[8, 16]), &spec).unwrap_err();
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
