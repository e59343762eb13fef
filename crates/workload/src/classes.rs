//! Ranks that have the same layers: those of one stage, and among them those on which the same layers run.

use crate::ClassRun;
use crate::layer::Layer;
use crate::mesh::Mesh;
use crate::parallel::PIPELINE;
use crate::roles::Coordinates;
use std::collections::BTreeMap;

/// Ranks with the same layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// Their stage.
    pub(crate) stage: u32,
    /// For each of the limits, whether they are inside.
    inside: Vec<bool>,
}

/// The classes of a job's ranks.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    /// For each layer, the number of the limit to its ranks.
    limit: Vec<Option<usize>>,
    /// In the order of their first ranks.
    pub(crate) classes: Vec<Class>,
    /// The class of each rank.
    pub(crate) runs: Vec<ClassRun>,
}

impl Classes {
    /// Finds the classes. Layers name meshes that exist.
    pub(crate) fn new(layers: &[Layer], mesh: &Mesh, meshes: &BTreeMap<&str, Mesh>) -> Self {
        let mut limits: Vec<(Option<&str>, &Coordinates)> = Vec::new();
        let mut limit = Vec::with_capacity(layers.len());
        for layer in layers {
            let own = (layer.mesh.as_deref(), &layer.ranks);
            limit.push((!layer.ranks.is_empty()).then(|| {
                limits.iter().position(|known| *known == own).unwrap_or_else(|| {
                    limits.push(own);
                    limits.len() - 1
                })
            }));
        }
        if limits.is_empty() && mesh.degree(PIPELINE) == 1 {
            return Self {
                limit,
                classes: vec![Class { stage: 0, inside: Vec::new() }],
                runs: vec![ClassRun { first: 0, class: 0 }],
            };
        }
        let inside = |rank: u32, (name, coordinates): &(Option<&str>, &Coordinates)| {
            let mesh = name.map_or(mesh, |name| &meshes[name]);
            coordinates.iter().all(|(axis, at)| at.contains(&mesh.coordinate(rank, axis)))
        };
        let (mut classes, mut runs): (Vec<Class>, Vec<ClassRun>) = (Vec::new(), Vec::new());
        for rank in 0..mesh.ranks() {
            let class = Class {
                stage: mesh.coordinate(rank, PIPELINE),
                inside: limits.iter().map(|limit| inside(rank, limit)).collect(),
            };
            let number = classes.iter().position(|known| *known == class).unwrap_or_else(|| {
                classes.push(class);
                classes.len() - 1
            });
            if runs.last().is_none_or(|last| last.class != number as u32) {
                runs.push(ClassRun { first: rank, class: number as u32 });
            }
        }
        Self { limit, classes, runs }
    }

    /// For each layer, whether ranks of a class have it, their stage aside.
    pub(crate) fn present(&self, class: &Class) -> Vec<bool> {
        self.limit.iter().map(|limit| limit.is_none_or(|limit| class.inside[limit])).collect()
    }
}
