//! Answers the cases of `rnn`: an LSTM language model, its gradients by hand, without any crate.
//!
//! `rustc -O --edition 2021 examples/rust/rnn.rs` compiles it, and `./rnn CASE_DIR OUT_DIR` answers a case
//! (docs/conformance.md, docs/conformance/rnn.md). The columns of a batch meet only in the sums of the loss and of the
//! gradients, so the program takes one after the other. It computes in f64, and rounds parameters to the case's dtype.

mod tensors;

use std::path::Path;
use std::{env, fs};
use tensors::{read_tensors, write_tensors, Json, Result, Tensor, Tensors};

/// What an LSTM layer hands to its next token: the hidden and the cell state.
#[derive(Clone)]
struct State {
    h: Vec<f64>,
    c: Vec<f64>,
}

impl State {
    fn zero(size: usize) -> State {
        State { h: vec![0.0; size], c: vec![0.0; size] }
    }
}

/// One layer at one token, with all that its gradient needs.
struct Cell {
    x: Vec<f64>,
    before: State,
    gates: Vec<f64>, // σ(i), σ(f), tanh(g), σ(o), each nhid long
    after: State,
}

impl Cell {
    fn forward(parameters: &Tensors, layer: usize, x: Vec<f64>, before: State) -> Cell {
        let mut gates = linear(parameters, &format!("rnn/weight_ih_l{layer}"), &x);
        add(&mut gates, &linear(parameters, &format!("rnn/weight_hh_l{layer}"), &before.h));
        let size = before.h.len();
        for (k, gate) in gates.iter_mut().enumerate() {
            *gate = if k / size == 2 { gate.tanh() } else { 1.0 / (1.0 + (-*gate).exp()) };
        }
        let mut after = State::zero(size);
        for k in 0..size {
            let (i, f, g, o) = (gates[k], gates[size + k], gates[2 * size + k], gates[3 * size + k]);
            after.c[k] = f * before.c[k] + i * g;
            after.h[k] = o * after.c[k].tanh();
        }
        Cell { x, before, gates, after }
    }

    /// Takes the gradients of the state after the token; returns those of x and of the state before.
    fn backward(&self, parameters: &Tensors, gradients: &mut Tensors, layer: usize, d: &State) -> (Vec<f64>, State) {
        let size = d.h.len();
        let mut d_gates = vec![0.0; 4 * size]; // before σ and tanh
        let mut d_before = State::zero(size);
        for k in 0..size {
            let (i, f) = (self.gates[k], self.gates[size + k]);
            let (g, o) = (self.gates[2 * size + k], self.gates[3 * size + k]);
            let tanh_c = self.after.c[k].tanh();
            let d_c = d.c[k] + d.h[k] * o * (1.0 - tanh_c * tanh_c);
            d_gates[k] = d_c * g * i * (1.0 - i);
            d_gates[size + k] = d_c * self.before.c[k] * f * (1.0 - f);
            d_gates[2 * size + k] = d_c * i * (1.0 - g * g);
            d_gates[3 * size + k] = d.h[k] * tanh_c * o * (1.0 - o);
            d_before.c[k] = d_c * f;
        }
        let d_x = linear_backward(parameters, gradients, &format!("rnn/weight_ih_l{layer}"), &self.x, &d_gates);
        let hidden = format!("rnn/weight_hh_l{layer}");
        d_before.h = linear_backward(parameters, gradients, &hidden, &self.before.h, &d_gates);
        (d_x, d_before)
    }
}

/// One column of a step's batch.
struct Column<'a> {
    inputs: &'a Tensors,
    step: &'a str,
    index: usize,
}

impl Column<'_> {
    fn data(&self, name: &str) -> &Tensor {
        &self.inputs[&format!("data/trainer/{}/{name}", self.step)]
    }

    fn token(&self, name: &str, t: usize) -> usize {
        self.data(name).at(&[t, self.index])[0] as usize
    }

    /// `x` times the factors of a dropout, if there is one: forward and backward.
    fn dropped(&self, name: &str, index: &[usize], mut x: Vec<f64>) -> Vec<f64> {
        if let Some(factors) = self.inputs.get(&format!("draws/{name}/{}", self.step)) {
            x.iter_mut().zip(factors.at(index)).for_each(|(x, factor)| *x *= factor);
        }
        x
    }

    /// The dropout between a layer and the next one, or between the last layer and the decoder.
    fn dropped_after(&self, layer: usize, layers: usize, t: usize, x: Vec<f64>) -> Vec<f64> {
        if layer + 1 < layers {
            self.dropped("rnn", &[layer, t, self.index], x)
        } else {
            self.dropped("decoder", &[t, self.index], x)
        }
    }

    /// Adds this column's share to the gradients; returns its share of the loss. `states` has one state per layer.
    fn learn(&self, parameters: &Tensors, gradients: &mut Tensors, states: &mut [State]) -> f64 {
        let (sequence, layers) = (self.data("tokens").shape[0], states.len());
        let count = self.data("tokens").numbers.len() as f64;

        let encoder = &parameters["emb_table/encoder.weight"];
        let embedded = |t| encoder.at(&[self.token("tokens", t)]).to_vec();
        let dropped = |t| self.dropped("emb_table", &[t, self.index], embedded(t));
        let mut x: Vec<Vec<f64>> = (0..sequence).map(dropped).collect(); // by token
        let mut cells: Vec<Vec<Cell>> = Vec::new();
        for (layer, state) in states.iter_mut().enumerate() {
            cells.push(Vec::new());
            for t in 0..sequence {
                let cell = Cell::forward(parameters, layer, x[t].clone(), state.clone());
                *state = cell.after.clone();
                x[t] = self.dropped_after(layer, layers, t, state.h.clone());
                cells[layer].push(cell);
            }
        }

        let mut loss = 0.0;
        let mut d: Vec<Vec<f64>> = Vec::new(); // gradients of x, by token
        for (t, x) in x.iter().enumerate() {
            let scores = linear(parameters, "decoder/decoder.weight", x);
            let highest = scores.iter().cloned().fold(f64::MIN, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - highest).exp()).sum();
            let target = self.token("target", t);
            loss += (highest + sum.ln() - scores[target]) / count;
            let mut d_scores: Vec<f64> = scores.iter().map(|score| (score - highest).exp() / sum / count).collect();
            d_scores[target] -= 1.0 / count;
            d.push(linear_backward(parameters, gradients, "decoder/decoder.weight", x, &d_scores));
        }

        for layer in (0..layers).rev() {
            let mut d_state = State::zero(states[layer].h.len());
            for t in (0..sequence).rev() {
                add(&mut d_state.h, &self.dropped_after(layer, layers, t, d[t].clone()));
                (d[t], d_state) = cells[layer][t].backward(parameters, gradients, layer, &d_state);
            }
        }
        let d_encoder = gradients.get_mut("emb_table/encoder.weight").unwrap();
        for (t, d) in d.into_iter().enumerate() {
            let d_embedded = self.dropped("emb_table", &[t, self.index], d);
            add(d_encoder.at_mut(&[self.token("tokens", t)]), &d_embedded);
        }
        loss
    }
}

/// W x + b, where the name of the bias is that of the weight with another word.
fn linear(parameters: &Tensors, weight: &str, x: &[f64]) -> Vec<f64> {
    let bias = &parameters[&weight.replace("weight", "bias")].numbers;
    let rows = parameters[weight].numbers.chunks(x.len());
    rows.zip(bias).map(|(row, b)| b + row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>()).collect()
}

/// Takes the gradient of W x + b; adds to those of W and b, and returns that of x.
fn linear_backward(parameters: &Tensors, gradients: &mut Tensors, weight: &str, x: &[f64], d: &[f64]) -> Vec<f64> {
    add(&mut gradients.get_mut(&weight.replace("weight", "bias")).unwrap().numbers, d);
    let d_weight = gradients.get_mut(weight).unwrap();
    let mut d_x = vec![0.0; x.len()];
    for (k, d) in d.iter().enumerate() {
        add(d_weight.at_mut(&[k]), &x.iter().map(|x| d * x).collect::<Vec<_>>());
        add(&mut d_x, &parameters[weight].at(&[k]).iter().map(|w| d * w).collect::<Vec<_>>());
    }
    d_x
}

fn add(to: &mut [f64], what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += what);
}

/// Rounds as `dtype` does: F64, F32, or BF16, whose numbers are computed in F32.
fn rounded(number: f64, dtype: &str) -> f64 {
    match dtype {
        "F64" => number,
        _ => number as f32 as f64,
    }
}

fn train(case: &Json, inputs: &Tensors, dtype: &str) -> Result<Tensors> {
    let lr = case.get("lr")?.number()?;
    let initial = inputs.iter().filter_map(|(name, tensor)| Some((name.strip_prefix("initial/")?, tensor)));
    let mut parameters: Tensors = initial.map(|(name, tensor)| (name.to_string(), tensor.clone())).collect();
    let state = State::zero(case.get("nhid")?.size()?);
    let begin = vec![vec![state; case.get("nlayers")?.size()?]; case.get("batch_size")?.size()?];
    let mut states = begin.clone();
    let mut outputs = Tensors::new();
    for step in 0..case.get("steps")?.size()? {
        if step % case.get("batches")?.size()? == 0 {
            states = begin.clone();
        }
        let mut gradients = parameters.clone();
        gradients.values_mut().for_each(|gradient| gradient.numbers.fill(0.0));
        let step = &format!("{step:04}");
        let mut loss = 0.0;
        for (index, states) in states.iter_mut().enumerate() {
            loss += Column { inputs, step, index }.learn(&parameters, &mut gradients, states);
        }
        outputs.insert(format!("{step}/loss/trainer"), Tensor { shape: vec![], numbers: vec![loss] });
        for (name, gradient) in gradients {
            let parameter = parameters.get_mut(&name).unwrap();
            for (p, g) in parameter.numbers.iter_mut().zip(&gradient.numbers) {
                *p = rounded(*p - lr * g, dtype);
            }
            outputs.insert(format!("{step}/parameter/{name}"), parameter.clone());
            outputs.insert(format!("{step}/gradient/{name}"), gradient);
        }
    }
    Ok(outputs)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().collect();
    let [_, case_dir, out_dir] = &arguments[..] else {
        return Err("wanted two arguments: CASE_DIR OUT_DIR".into());
    };
    let (case_dir, out_dir) = (Path::new(case_dir), Path::new(out_dir));
    let file = Json::read(&fs::read_to_string(case_dir.join("case.json"))?)?;
    if file.get("tutorial")?.text()? != "rnn" {
        let result = r#"{"status": "skipped", "reason": "this program has only rnn"}"#;
        return Ok(fs::write(out_dir.join("result.json"), result)?);
    }
    let case = file.get("case")?;
    let dtype = match case.get("dtype")?.text()? {
        "float32" => "F32",
        "bfloat16" => "BF16",
        _ => "F64",
    };
    let outputs = train(case, &read_tensors(&case_dir.join("input.safetensors"))?, dtype)?;
    write_tensors(&out_dir.join("trace.safetensors"), &outputs, dtype)
}
