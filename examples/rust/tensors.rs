//! Reads case.json, and reads and writes safetensors files, with nothing but Rust's standard library.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::iter::Peekable;
use std::ops::Range;
use std::path::Path;
use std::str::Chars;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;
pub type Tensors = BTreeMap<String, Tensor>;

/// A tensor of any dtype. All numbers are f64, which holds F32 and small integers as they are.
#[derive(Clone)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub numbers: Vec<f64>,
}

impl Tensor {
    /// The numbers whose first indices are these: a row, if one index less is given than there are dimensions.
    pub fn at(&self, index: &[usize]) -> &[f64] {
        &self.numbers[self.place(index)]
    }

    pub fn at_mut(&mut self, index: &[usize]) -> &mut [f64] {
        let place = self.place(index);
        &mut self.numbers[place]
    }

    fn place(&self, index: &[usize]) -> Range<usize> {
        let size: usize = self.shape[index.len()..].iter().product();
        let begin = size * index.iter().zip(&self.shape).fold(0, |sum, (each, length)| sum * length + each);
        begin..begin + size
    }
}

pub fn read_tensors(path: &Path) -> Result<Tensors> {
    let file = fs::read(path)?;
    let end = 8 + u64::from_le_bytes(file[..8].try_into()?) as usize;
    let Json::Object(header) = Json::read(std::str::from_utf8(&file[8..end])?)? else {
        return Err("wanted an object as the header of a safetensors file".into());
    };
    let mut found = Tensors::new();
    for (name, entry) in header {
        let offsets = entry.get("data_offsets")?.sizes()?;
        let bytes = &file[end + offsets[0]..end + offsets[1]];
        let numbers = match entry.get("dtype")?.text()? {
            "F64" => bytes.chunks(8).map(|each| f64::from_le_bytes(each.try_into().unwrap())).collect(),
            "F32" => bytes.chunks(4).map(|each| f32::from_le_bytes(each.try_into().unwrap()).into()).collect(),
            "BF16" => bytes.chunks(2).map(|each| short(u16::from_le_bytes(each.try_into().unwrap()))).collect(),
            "I64" => bytes.chunks(8).map(|each| i64::from_le_bytes(each.try_into().unwrap()) as f64).collect(),
            other => return Err(format!("{name}: got dtype {other}, wanted F64, F32, BF16 or I64").into()),
        };
        found.insert(name, Tensor { shape: entry.get("shape")?.sizes()?, numbers });
    }
    Ok(found)
}

/// The number with these bits of bfloat16, the upper half of float32's.
fn short(bits: u16) -> f64 {
    f32::from_bits((bits as u32) << 16).into()
}

/// The bits of bfloat16, rounded to nearest even.
fn short_bits(number: f64) -> u16 {
    let bits = (number as f32).to_bits();
    if number.is_nan() {
        return 0x7fc0;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Writes all tensors as `dtype`: F32, F64 or BF16.
pub fn write_tensors(path: &Path, tensors: &Tensors, dtype: &str) -> Result<()> {
    let (mut entries, mut bytes) = (Vec::new(), Vec::new());
    for (name, Tensor { shape, numbers }) in tensors {
        let begin = bytes.len();
        for number in numbers {
            match dtype {
                "F32" => bytes.extend((*number as f32).to_le_bytes()),
                "BF16" => bytes.extend(short_bits(*number).to_le_bytes()),
                _ => bytes.extend(number.to_le_bytes()),
            }
        }
        let end = bytes.len();
        entries.push(format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#));
    }
    let header = format!("{{{}}}", entries.join(","));
    Ok(fs::write(path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes].concat())?)
}

/// A JSON value. `Word` is a number, true, false or null as it stands in the text.
pub enum Json {
    Word(String),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Reads a text that is known to be JSON: not every mistake in it is noticed.
    pub fn read(text: &str) -> Result<Json> {
        value(&mut text.chars().peekable())
    }

    pub fn get(&self, key: &str) -> Result<&Json> {
        match self {
            Json::Object(members) => members.get(key).ok_or(format!("wanted the key {key:?}").into()),
            _ => Err(format!("wanted an object with the key {key:?}").into()),
        }
    }

    pub fn text(&self) -> Result<&str> {
        match self {
            Json::Text(text) => Ok(text),
            _ => Err("wanted a text".into()),
        }
    }

    pub fn number(&self) -> Result<f64> {
        match self {
            Json::Word(word) => Ok(word.parse()?),
            _ => Err("wanted a number".into()),
        }
    }

    pub fn size(&self) -> Result<usize> {
        Ok(self.number()? as usize)
    }

    fn sizes(&self) -> Result<Vec<usize>> {
        match self {
            Json::List(items) => items.iter().map(Json::size).collect(),
            _ => Err("wanted a list of numbers".into()),
        }
    }
}

fn value(text: &mut Peekable<Chars>) -> Result<Json> {
    match after_blanks(text)? {
        '"' => Ok(Json::Text(string(text)?)),
        '[' => {
            let mut items = Vec::new();
            while !ends(text, ']') {
                items.push(value(text)?);
            }
            Ok(Json::List(items))
        }
        '{' => {
            let mut members = BTreeMap::new();
            while !ends(text, '}') {
                let key = value(text)?.text()?.to_string();
                after_blanks(text)?; // the colon
                members.insert(key, value(text)?);
            }
            Ok(Json::Object(members))
        }
        first => {
            let mut word = String::from(first);
            while let Some(next) = text.next_if(|next| next.is_ascii_alphanumeric() || "+-.".contains(*next)) {
                word.push(next);
            }
            Ok(Json::Word(word))
        }
    }
}

/// The next character that is no blank.
fn after_blanks(text: &mut Peekable<Chars>) -> Result<char> {
    text.find(|each| !each.is_whitespace()).ok_or("wanted more JSON, got its end".into())
}

/// Whether the list or object ends here; takes its end, or the comma and blanks before its next item.
fn ends(text: &mut Peekable<Chars>, end: char) -> bool {
    while text.next_if(|each| each.is_whitespace() || *each == ',').is_some() {}
    text.next_if_eq(&end).is_some()
}

/// What follows a quotation mark, to the next one.
fn string(text: &mut Peekable<Chars>) -> Result<String> {
    let mut found = String::new();
    loop {
        match text.next().ok_or("wanted the end of a JSON string")? {
            '"' => return Ok(found),
            '\\' => match text.next().ok_or("wanted more after a backslash")? {
                'n' => found.push('\n'),
                't' => found.push('\t'),
                'r' => found.push('\r'),
                'b' => found.push('\u{8}'),
                'f' => found.push('\u{c}'),
                'u' => {
                    let code = u32::from_str_radix(&text.take(4).collect::<String>(), 16)?;
                    found.push(char::from_u32(code).unwrap_or('\u{fffd}')); // half a surrogate pair
                }
                other => found.push(other),
            },
            other => found.push(other),
        }
    }
}
