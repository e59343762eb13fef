//! Optimizers, which update parameters by gradients, by name. They use the formulas of `torch.optim`.
//!
//! The core that has summed a chunk also updates it, while the chunk is in the core's cache (luo2020, section 3.2.2).
//! An [`Optimizer`] works on one chunk at a time and keeps its state in vectors of the chunk's length. An optimizer of
//! your own ([`Optimizers::add`]) therefore needs to know nothing about chunks, cores or workers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Sub};
use std::sync::Arc;
use syncline_protocol::memory::Buffer;
use syncline_reduction::Element;

/// An optimizer by its name, and its parameters by theirs. Parameters that are absent have their defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// The name.
    pub name: String,
    /// The values of parameters such as `lr`.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
}

/// One chunk to update.
#[derive(Debug)]
pub struct Update<'a> {
    /// The type of elements: `f32` or `f64`.
    pub element: Element,
    /// The parameters, to be replaced by those after the step.
    pub parameters: &'a mut [u8],
    /// The gradient: the sum or mean of the workers' contributions. The optimizer may overwrite it.
    pub gradient: &'a mut [u8],
    /// The optimizer's state: as many vectors as [`Optimizer::vectors`] says, of zeros at first.
    pub memory: &'a mut [Buffer],
    /// The number of the step, from 1.
    pub step: u64,
    /// The learning rate, if it has changed since the optimizer was made.
    pub rate: Option<f64>,
}

/// Updates parameters by a gradient.
pub trait Optimizer: Debug + Send + Sync {
    /// Returns the number of state vectors for each chunk of parameters.
    fn vectors(&self) -> usize;

    /// Does one step on one chunk.
    fn update(&self, update: Update<'_>);
}

/// Makes an optimizer from its parameters. An error is a sentence.
pub type Maker = fn(&mut Parameters) -> Result<Arc<dyn Optimizer>, String>;

/// The given parameters. An optimizer takes each of them once.
#[derive(Debug)]
pub struct Parameters {
    given: BTreeMap<String, f64>,
    known: Vec<&'static str>,
}

impl Parameters {
    /// Takes a parameter that must be in a range; `default` if it is not given.
    ///
    /// # Errors
    /// A sentence: the value is not in the range, or it is not given and has no default.
    pub fn take(
        &mut self,
        name: &'static str,
        default: Option<f64>,
        allowed: std::ops::Range<f64>,
    ) -> Result<f64, String> {
        self.known.push(name);
        let value = self.given.remove(name).or(default);
        let value = value.ok_or_else(|| format!("`{name}` is missing"))?;
        if allowed.contains(&value) {
            return Ok(value);
        }
        let below =
            if allowed.end == f64::INFINITY { String::new() } else { format!(" and below {}", allowed.end) };
        Err(format!("`{name}` is {value}: it must be {} or more{below}", allowed.start))
    }

    /// Takes a parameter that is 0 or 1.
    ///
    /// # Errors
    /// A sentence: the value is something else.
    pub fn flag(&mut self, name: &'static str) -> Result<bool, String> {
        match self.take(name, Some(0.0), 0.0..f64::INFINITY)? {
            0.0 => Ok(false),
            1.0 => Ok(true),
            value => Err(format!("`{name}` is {value}: it must be 0 or 1")),
        }
    }
}

/// Optimizers by name.
#[derive(Clone, Debug)]
pub struct Optimizers(BTreeMap<String, Maker>);

impl Default for Optimizers {
    /// `sgd` (with momentum, dampening, weight decay, Nesterov) and `adam` (with weight decay, decoupled or not).
    fn default() -> Self {
        let mut all = Self(BTreeMap::new());
        all.add("sgd", |parameters| Ok(Arc::new(Sgd::of(parameters)?)));
        all.add("adam", |parameters| Ok(Arc::new(Adam::of(parameters)?)));
        all
    }
}

impl Optimizers {
    /// Adds an optimizer, or replaces the one with this name. Hubs and workers must have the same optimizers.
    pub fn add(&mut self, name: &str, maker: Maker) {
        self.0.insert(name.to_owned(), maker);
    }

    /// Makes the chosen optimizer.
    ///
    /// # Errors
    /// A sentence: the name or a parameter is unknown (with those that exist), or a value is not allowed.
    pub fn make(&self, chosen: &Chosen) -> Result<Arc<dyn Optimizer>, String> {
        let maker = self.0.get(&chosen.name).ok_or_else(|| {
            let all: Vec<String> = self.0.keys().map(|name| format!("`{name}`")).collect();
            format!("there is no optimizer `{}`: choose one of {}", chosen.name, all.join(", "))
        })?;
        let mut parameters = Parameters { given: chosen.parameters.clone(), known: Vec::new() };
        let made = maker(&mut parameters).map_err(|why| format!("optimizer `{}`: {why}", chosen.name))?;
        match parameters.given.keys().next() {
            Some(unknown) => {
                let known: Vec<String> = parameters.known.iter().map(|name| format!("`{name}`")).collect();
                Err(format!("optimizer `{}` has no `{unknown}`: it has {}", chosen.name, known.join(", ")))
            }
            None => Ok(made),
        }
    }
}

/// A type of parameters.
trait Real: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> {
    const BYTES: usize;
    fn of(value: f64) -> Self;
    fn root(self) -> Self;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            const BYTES: usize = size_of::<$type>();
            fn of(value: f64) -> Self {
                value as $type
            }
            fn root(self) -> Self {
                self.sqrt()
            }
            fn read(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("as long as an element"))
            }
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    };
}

real!(f32);
real!(f64);

/// Calls `each` with every parameter, its gradient and its state, and stores the new parameter and state that it
/// returns.
fn for_each<R: Real, const MEMORY: usize>(
    parameters: &mut [u8],
    gradient: &[u8],
    memory: &mut [Buffer],
    mut each: impl FnMut(R, R, [R; MEMORY]) -> (R, [R; MEMORY]),
) {
    let mut memory: [_; MEMORY] = {
        let mut vectors = memory.iter_mut();
        std::array::from_fn(|_| {
            vectors
                .next()
                .expect("as many vectors as the optimizer says")
                .as_mut_slice()
                .chunks_exact_mut(R::BYTES)
        })
    };
    for (parameter, gradient) in parameters.chunks_exact_mut(R::BYTES).zip(gradient.chunks_exact(R::BYTES)) {
        let mut places: [&mut [u8]; MEMORY] =
            std::array::from_fn(|vector| memory[vector].next().expect("as long as the parameters"));
        let remembered = std::array::from_fn(|vector| R::read(places[vector]));
        let (after, remembered) = each(R::read(parameter), R::read(gradient), remembered);
        after.write(parameter);
        for (place, value) in places.iter_mut().zip(remembered) {
            value.write(place);
        }
    }
}

/// Stochastic gradient descent, as `torch.optim.SGD`.
#[derive(Debug)]
struct Sgd {
    rate: f64,
    momentum: f64,
    dampening: f64,
    decay: f64,
    nesterov: bool,
}

impl Sgd {
    fn of(parameters: &mut Parameters) -> Result<Self, String> {
        let any = 0.0..f64::INFINITY;
        let sgd = Self {
            rate: parameters.take("lr", Some(1e-3), any.clone())?,
            momentum: parameters.take("momentum", Some(0.0), any.clone())?,
            dampening: parameters.take("dampening", Some(0.0), any.clone())?,
            decay: parameters.take("weight_decay", Some(0.0), any)?,
            nesterov: parameters.flag("nesterov")?,
        };
        if sgd.nesterov && (sgd.momentum == 0.0 || sgd.dampening != 0.0) {
            return Err("`nesterov` needs a `momentum` and no `dampening`".to_owned());
        }
        Ok(sgd)
    }

    fn step<R: Real>(&self, update: Update<'_>) {
        let Update { parameters, gradient, memory, step, rate, .. } = update;
        let rate = R::of(rate.unwrap_or(self.rate));
        let (momentum, decay) = (R::of(self.momentum), R::of(self.decay));
        if self.momentum == 0.0 {
            for_each::<R, 0>(parameters, gradient, memory, |p, g, []| (p - rate * (g + decay * p), []));
            return;
        }
        // The first gradient is not dampened, as in PyTorch.
        let fresh = R::of(if step == 1 { 1.0 } else { 1.0 - self.dampening });
        for_each::<R, 1>(parameters, gradient, memory, |p, g, [m]| {
            let g = g + decay * p;
            let m = momentum * m + fresh * g;
            let g = if self.nesterov { g + momentum * m } else { m };
            (p - rate * g, [m])
        });
    }
}

impl Optimizer for Sgd {
    fn vectors(&self) -> usize {
        usize::from(self.momentum != 0.0)
    }

    fn update(&self, update: Update<'_>) {
        match update.element {
            Element::F64 => self.step::<f64>(update),
            _ => self.step::<f32>(update),
        }
    }
}

/// Adam (Kingma and Ba 2015), as `torch.optim.Adam`; with `decoupled`, as `torch.optim.AdamW` (Loshchilov and Hutter
/// 2019).
#[derive(Debug)]
struct Adam {
    rate: f64,
    betas: (f64, f64),
    epsilon: f64,
    decay: f64,
    decoupled: bool,
}

impl Adam {
    fn of(parameters: &mut Parameters) -> Result<Self, String> {
        let any = 0.0..f64::INFINITY;
        Ok(Self {
            rate: parameters.take("lr", Some(1e-3), any.clone())?,
            betas: (
                parameters.take("beta1", Some(0.9), 0.0..1.0)?,
                parameters.take("beta2", Some(0.999), 0.0..1.0)?,
            ),
            epsilon: parameters.take("eps", Some(1e-8), any.clone())?,
            decay: parameters.take("weight_decay", Some(0.0), any)?,
            decoupled: parameters.flag("decoupled")?,
        })
    }

    fn step<R: Real>(&self, update: Update<'_>) {
        let Update { parameters, gradient, memory, step, rate, .. } = update;
        let rate = rate.unwrap_or(self.rate);
        // The power of a larger step would be zero anyway.
        let power = i32::try_from(step).unwrap_or(i32::MAX);
        let bias = |beta: f64| 1.0 - beta.powi(power);
        let (first, second) = (R::of(self.betas.0), R::of(self.betas.1));
        let (rest_first, rest_second) = (R::of(1.0 - self.betas.0), R::of(1.0 - self.betas.1));
        let size = R::of(rate / bias(self.betas.0));
        let (root, epsilon) = (R::of(bias(self.betas.1).sqrt()), R::of(self.epsilon));
        let (shrink, decay) = if self.decoupled {
            (R::of(1.0 - rate * self.decay), R::of(0.0))
        } else {
            (R::of(1.0), R::of(self.decay))
        };
        for_each::<R, 2>(parameters, gradient, memory, |p, g, [m, v]| {
            let g = g + decay * p;
            let p = p * shrink;
            let m = first * m + rest_first * g;
            let v = second * v + rest_second * g * g;
            (p - size * m / (v.root() / root + epsilon), [m, v])
        });
    }
}

impl Optimizer for Adam {
    fn vectors(&self) -> usize {
        2
    }

    fn update(&self, update: Update<'_>) {
        match update.element {
            Element::F64 => self.step::<f64>(update),
            _ => self.step::<f32>(update),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(name: &str, parameters: &[(&str, f64)]) -> Chosen {
        let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        Chosen { name: name.to_owned(), parameters }
    }

    /// Returns a parameter after some steps. It starts at 1, and has the same gradient at each step.
    fn run(chosen: &Chosen, gradient: f64, steps: u64) -> f64 {
        let optimizer = Optimizers::default().make(chosen).unwrap();
        let mut memory: Vec<Buffer> = (0..optimizer.vectors()).map(|_| Buffer::new(8)).collect();
        let mut parameters = 1.0f64.to_ne_bytes();
        for step in 1..=steps {
            let mut gradient = gradient.to_ne_bytes();
            optimizer.update(Update {
                element: Element::F64,
                parameters: &mut parameters,
                gradient: &mut gradient,
                memory: &mut memory,
                step,
                rate: None,
            });
        }
        f64::from_ne_bytes(parameters)
    }

    #[test]
    fn steps_match_results_by_hand() {
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        near(run(&chosen("sgd", &[("lr", 0.1)]), 2.0, 3), 1.0 - 3.0 * 0.2);
        // Momentum 0.5: velocities 2, 3, 3.5.
        let momentum = [("lr", 0.1), ("momentum", 0.5)];
        near(run(&chosen("sgd", &momentum), 2.0, 3), 1.0 - 0.1 * 8.5);
        // Nesterov steps by g + 0.5 v: 3, 3.5, 3.75.
        let nesterov = [("lr", 0.1), ("momentum", 0.5), ("nesterov", 1.0)];
        near(run(&chosen("sgd", &nesterov), 2.0, 3), 1.0 - 0.1 * 10.25);
        // Dampening 0.5: velocities 2, 0.5 * 2 + 0.5 * 2 = 2.
        let dampened = [("lr", 0.1), ("momentum", 0.5), ("dampening", 0.5)];
        near(run(&chosen("sgd", &dampened), 2.0, 2), 1.0 - 0.1 * 4.0);
        near(run(&chosen("sgd", &[("lr", 0.1), ("weight_decay", 0.5)]), 0.0, 2), 0.95 * 0.95);
        // With equal gradients Adam steps by the learning rate, but for epsilon.
        assert!((run(&chosen("adam", &[("lr", 0.1)]), 2.0, 4) - 0.6).abs() < 1e-7);
        let decoupled = [("lr", 0.1), ("weight_decay", 0.5), ("decoupled", 1.0)];
        near(run(&chosen("adam", &decoupled), 0.0, 2), 0.95 * 0.95);
    }

    #[test]
    fn a_learning_rate_may_change() {
        let optimizer = Optimizers::default().make(&chosen("sgd", &[("lr", 0.1)])).unwrap();
        let mut parameters = 1.0f32.to_ne_bytes();
        let mut gradient = 1.0f32.to_ne_bytes();
        optimizer.update(Update {
            element: Element::F32,
            parameters: &mut parameters,
            gradient: &mut gradient,
            memory: &mut [],
            step: 1,
            rate: Some(0.5),
        });
        assert_eq!(f32::from_ne_bytes(parameters), 0.5);
    }

    #[test]
    fn invalid_choices_are_refused() {
        let refused = |name, parameters| Optimizers::default().make(&chosen(name, parameters)).unwrap_err();
        assert!(refused("sdg", &[]).contains("choose one of `adam`, `sgd`"));
        assert!(refused("sgd", &[("beta1", 0.5)]).contains("has no `beta1`: it has `lr`, `momentum`"));
        assert!(refused("adam", &[("beta1", 1.0)]).contains("it must be 0 or more and below 1"));
        assert!(refused("sgd", &[("lr", f64::NAN)]).contains("`lr` is NaN"));
        assert!(refused("sgd", &[("lr", f64::INFINITY)]).contains("`lr` is inf"));
        assert!(refused("sgd", &[("nesterov", 1.0)]).contains("needs a `momentum`"));
    }

    #[test]
    fn an_optimizer_can_be_added() {
        #[derive(Debug)]
        struct Sign;
        impl Optimizer for Sign {
            fn vectors(&self) -> usize {
                0
            }
            fn update(&self, update: Update<'_>) {
                for_each::<f32, 0>(update.parameters, update.gradient, &mut [], |p, g, []| {
                    (p - g.signum(), [])
                });
            }
        }
        let mut all = Optimizers::default();
        all.add("sign", |_| Ok(Arc::new(Sign)));
        assert_eq!(all.make(&chosen("sign", &[])).unwrap().vectors(), 0);
    }
}
