//! The paper's model of a level, f' = w·φ + b, fitted by least squares with a penalty on w (ridge regression).
//!
//! A level has fewer tables than a model has weights, so without a penalty there is no single best fit. The samples are kept as
//! sums alone: adding one costs e² steps, a fit e³/6, whatever the number of samples; older ones fade as newer ones come.

/// What samples (φ, f) add up to.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// Their number, less what has faded.
    samples: f64,
    /// Σ φ.
    sums: Vec<f64>,
    /// Σ φ φᵀ, the lower triangle by rows.
    products: Vec<Vec<f64>>,
    /// Σ f φ.
    targets: Vec<f64>,
    /// Σ f and Σ f².
    target_sums: (f64, f64),
}

/// A fitted model.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearModel {
    /// w.
    pub weights: Vec<f64>,
    /// b.
    pub intercept: f64,
    /// The part of the samples' variance that the model explains, at most 1; `None` if they do not vary.
    pub r2: Option<f64>,
}

impl LinearModel {
    /// f', unless there is no such number.
    pub fn predict(&self, phi: &[f64]) -> Option<f64> {
        if phi.len() != self.weights.len() {
            return None;
        }
        Some(self.intercept + dot(&self.weights, phi)).filter(|heat| heat.is_finite())
    }
}

impl Moments {
    /// No samples yet, of so many features.
    pub fn new(features: usize) -> Moments {
        Moments {
            samples: 0.0,
            sums: vec![0.0; features],
            products: (1..=features).map(|len| vec![0.0; len]).collect(),
            targets: vec![0.0; features],
            target_sums: (0.0, 0.0),
        }
    }

    /// Their number, less what has faded.
    pub fn samples(&self) -> f64 {
        self.samples
    }

    /// Takes note of a sample. One with a number that is none, or of other features, is no sample.
    pub fn add(&mut self, phi: &[f64], heat: f64) {
        if phi.len() != self.sums.len() || !phi.iter().chain([&heat]).all(|x| x.is_finite()) {
            return;
        }
        self.samples += 1.0;
        self.target_sums.0 += heat;
        self.target_sums.1 += heat * heat;
        for (sum, x) in self.sums.iter_mut().zip(phi) {
            *sum += x;
        }
        for (target, x) in self.targets.iter_mut().zip(phi) {
            *target += heat * x;
        }
        for (row, x) in self.products.iter_mut().zip(phi) {
            row.iter_mut().zip(phi).for_each(|(product, y)| *product += x * y);
        }
    }

    /// Lets every sample so far count for `keep` of itself.
    pub fn fade(&mut self, keep: f64) {
        self.samples *= keep;
        self.target_sums = (self.target_sums.0 * keep, self.target_sums.1 * keep);
        let rows = self.products.iter_mut().chain([&mut self.sums, &mut self.targets]);
        rows.flatten().for_each(|sum| *sum *= keep);
    }

    /// All its numbers.
    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        let (sum, squares) = self.target_sums;
        let rows = self.products.iter().chain([&self.sums, &self.targets]);
        rows.flatten().copied().chain([self.samples, sum, squares])
    }

    /// What `numbers` told, of so many features; `None` if `next` runs out or there were less samples than none.
    pub fn from_numbers(features: usize, next: &mut dyn FnMut() -> Option<f64>) -> Option<Moments> {
        let mut moments = Moments::new(features);
        let rows = moments.products.iter_mut().chain([&mut moments.sums, &mut moments.targets]);
        for number in rows.flatten().chain([&mut moments.samples]) {
            *number = next()?;
        }
        moments.target_sums = (next()?, next()?);
        (moments.samples >= 0.0).then_some(moments)
    }

    /// The weights that make Σ (w·φ + b - f)² + `ridge`·v·|w|² least, where v is the mean of the features' variances, times the
    /// number of samples: so the penalty means the same however features are scaled. `None` without samples, or if the numbers
    /// are too large to work with.
    pub fn fit(&self, ridge: f64) -> Option<LinearModel> {
        if self.samples <= 0.0 {
            return None;
        }
        let n = self.samples;
        let mean_heat = self.target_sums.0 / n;
        let heat_variance = (self.target_sums.1 - self.target_sums.0 * mean_heat).max(0.0);
        let covariances = self.centred_products();
        let targets: Vec<f64> = self.targets.iter().zip(&self.sums).map(|(t, s)| t - s * mean_heat).collect();
        let variance = covariances.iter().filter_map(|row| row.last()).sum::<f64>();
        if !(variance + heat_variance).is_finite() {
            return None;
        }
        let penalty = ridge * variance / self.sums.len().max(1) as f64;
        let weights =
            if variance > 0.0 { solve(&covariances, penalty, &targets)? } else { vec![0.0; targets.len()] };
        let intercept = mean_heat - dot(&weights, &self.sums) / n;
        let error = heat_variance - 2.0 * dot(&weights, &targets) + quadratic(&covariances, &weights);
        let is_flat = heat_variance <= 1e-12 * self.target_sums.1;
        let r2 = (!is_flat).then(|| (1.0 - error / heat_variance).min(1.0));
        let model = LinearModel { weights, intercept, r2 };
        let is_sound = model.weights.iter().chain([&intercept]).all(|w| w.is_finite());
        is_sound.then_some(model)
    }

    /// Σ (φ - mean)(φ - mean)ᵀ, the lower triangle.
    fn centred_products(&self) -> Vec<Vec<f64>> {
        let centre = |(row, sum): (&Vec<f64>, &f64)| {
            row.iter().zip(&self.sums).map(|(product, other)| product - sum * other / self.samples).collect()
        };
        self.products.iter().zip(&self.sums).map(centre).collect()
    }
}

/// x of (A + `penalty` I) x = b by Cholesky's A = L Lᵀ, A given as its lower triangle; `None` if A is not positive definite.
fn solve(a: &[Vec<f64>], penalty: f64, b: &[f64]) -> Option<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(a.len());
    for given in a {
        let (diagonal, left) = given.split_last()?;
        let mut row: Vec<f64> = Vec::with_capacity(given.len());
        for (above, value) in rows.iter().zip(left) {
            row.push((value - dot(&row, above)) / above.last()?);
        }
        let square = diagonal + penalty - dot(&row, &row);
        if square.is_nan() || square <= 0.0 {
            return None;
        }
        row.push(square.sqrt());
        rows.push(row);
    }
    let mut y: Vec<f64> = Vec::with_capacity(b.len());
    for (row, value) in rows.iter().zip(b) {
        y.push((value - dot(row, &y)) / row.last()?);
    }
    let mut x = Vec::with_capacity(b.len());
    for row in rows.iter().rev() {
        let (diagonal, left) = row.split_last()?;
        let value = y.pop()? / diagonal;
        y.iter_mut().zip(left).for_each(|(y, l)| *y -= l * value);
        x.push(value);
    }
    x.reverse();
    Some(x)
}

/// xᵀ A x, A given as its lower triangle.
fn quadratic(a: &[Vec<f64>], x: &[f64]) -> f64 {
    let row = |(row, x_i): (&Vec<f64>, &f64)| {
        let diagonal = row.last().copied().unwrap_or_default() * x_i;
        x_i * (2.0 * dot(row, x) - diagonal)
    };
    a.iter().zip(x).map(row).sum()
}

/// Of as many elements as the shorter has.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Sample = (Vec<f64>, f64);

    fn samples(features: usize) -> impl Strategy<Value = Vec<Sample>> {
        let phi = proptest::collection::vec(prop_oneof![Just(0.0), 0.0..100.0], features);
        proptest::collection::vec((phi, 0.0..1.0f64), 2..60)
    }

    fn moments(samples: &[Sample]) -> Moments {
        let mut moments = Moments::new(samples[0].0.len());
        samples.iter().for_each(|(phi, heat)| moments.add(phi, *heat));
        moments
    }

    /// What a fit makes least, and its part without the penalty, by going through the samples.
    fn cost(samples: &[Sample], ridge: f64, weights: &[f64], intercept: f64) -> (f64, f64) {
        let (n, e) = (samples.len() as f64, weights.len());
        let means: Vec<f64> =
            (0..e).map(|j| samples.iter().map(|(phi, _)| phi[j]).sum::<f64>() / n).collect();
        let spread = |phi: &[f64]| phi.iter().zip(&means).map(|(x, m)| (x - m).powi(2)).sum::<f64>();
        let variance = samples.iter().map(|(phi, _)| spread(phi)).sum::<f64>() / e as f64;
        let error = |(phi, heat): &Sample| (intercept + dot(weights, phi) - heat).powi(2);
        let errors: f64 = samples.iter().map(error).sum();
        (errors + ridge * variance * dot(weights, weights), errors)
    }

    proptest! {
        #[test]
        fn no_other_weights_cost_less(samples in (1usize..12).prop_flat_map(samples), ridge in 0.001..10.0f64) {
            let Some(model) = moments(&samples).fit(ridge) else { panic!("no fit") };
            let (least, errors) = cost(&samples, ridge, &model.weights, model.intercept);
            // The cost is convex: where no step along an axis lowers it there is nothing lower.
            for axis in 0..=model.weights.len() {
                for step in [-1e-3, -1e-5, 1e-5, 1e-3] {
                    let (mut weights, mut intercept) = (model.weights.clone(), model.intercept);
                    *weights.get_mut(axis).unwrap_or(&mut intercept) += step;
                    let (other, _) = cost(&samples, ridge, &weights, intercept);
                    prop_assert!(other >= least - 1e-9 * (1.0 + least), "axis {axis}: {other} < {least}");
                }
            }
            let mean = samples.iter().map(|s| s.1).sum::<f64>() / samples.len() as f64;
            let all = samples.iter().map(|s| (s.1 - mean).powi(2)).sum::<f64>();
            if all > 1e-6 {
                prop_assert!((model.r2.unwrap() - (1.0 - errors / all)).abs() < 1e-6);
            }
        }

        #[test]
        fn weights_are_found_again(weights in proptest::collection::vec(-1.0..1.0f64, 1..10), b in -1.0..1.0f64) {
            let e = weights.len();
            let phi = |i: usize| (0..e).map(|j| ((i * 7919 + j * j * 104_729 + i * i * j) % 97) as f64 / 97.0).collect();
            let samples: Vec<Sample> = (0..40 * e).map(phi).map(|phi: Vec<f64>| {
                let heat = b + dot(&weights, &phi);
                (phi, heat)
            }).collect();
            let model = moments(&samples).fit(1e-9).unwrap();
            for (phi, heat) in &samples {
                prop_assert!((model.predict(phi).unwrap() - heat).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn what_has_faded_counts_less() {
        let mut moments = Moments::new(1);
        (0..100).for_each(|i| moments.add(&[f64::from(i % 2)], f64::from(i % 2)));
        let before = moments.fit(1e-6).unwrap();
        assert!(before.weights[0] > 0.99 && before.r2.unwrap() > 0.99);
        // What was hot is cold now.
        for _ in 0..8 {
            moments.fade(0.5);
            (0..20).for_each(|i| moments.add(&[f64::from(i % 2)], f64::from(1 - i % 2)));
        }
        assert!(moments.samples() < 45.0);
        assert!(moments.fit(1e-6).unwrap().weights[0] < -0.9);
    }

    #[test]
    fn numbers_that_are_none_teach_nothing_and_foretell_nothing() {
        let mut moments = Moments::new(2);
        assert_eq!(moments.fit(1.0), None);
        moments.add(&[f64::NAN, 1.0], 0.5);
        moments.add(&[1.0, f64::INFINITY], 0.5);
        moments.add(&[1.0, 1.0], f64::NAN);
        moments.add(&[1.0], 0.5);
        assert_eq!(moments.samples(), 0.0);
        // Samples that do not vary make their mean the answer.
        moments.add(&[3.0, 4.0], 0.25);
        moments.add(&[3.0, 4.0], 0.25);
        let model = moments.fit(1.0).unwrap();
        assert_eq!((model.predict(&[9.0, 9.0]), model.r2), (Some(0.25), None));
        assert_eq!(model.predict(&[9.0]), None);
        assert_eq!(model.predict(&[f64::NAN, 0.0]), None);
        // Numbers whose squares are none.
        moments.add(&[1e300, 0.0], 1.0);
        moments.add(&[0.0, 1e300], 0.0);
        assert_eq!(moments.fit(1.0), None);
    }
}
