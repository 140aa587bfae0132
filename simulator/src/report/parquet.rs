//! Every message as a table of Apache Parquet, for data frames.

use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::Study;
use crate::results::{FlowResult, RunResult};

/// The values of a column.
enum Values {
    Text(Vec<ByteArray>),
    Whole(Vec<i64>),
    Real(Vec<f64>),
    /// Null where a message was not completed.
    Optional(Vec<Option<f64>>),
    Truth(Vec<bool>),
}

/// Each message of each run, with the columns of [`super::csv_flows`]. Times are
/// floating-point numbers of microseconds.
///
/// # Panics
/// If memory can't be written: a mistake here.
pub fn parquet_flows(study: &Study) -> Vec<u8> {
    written(&columns(study)).expect("memory can be written")
}

fn columns(study: &Study) -> [(&'static str, Values); 13] {
    type Message<'a> = (&'a RunResult, &'a FlowResult);
    let messages: Vec<Message<'_>> = study
        .results
        .iter()
        .flat_map(|run| run.flows.iter().map(move |flow| (run, flow)))
        .collect();
    let whole = |of: fn(&Message<'_>) -> u64| {
        Values::Whole(messages.iter().map(|m| of(m) as i64).collect())
    };
    let real = |of: fn(&Message<'_>) -> f64| Values::Real(messages.iter().map(of).collect());
    let optional =
        |of: fn(&Message<'_>) -> Option<f64>| Values::Optional(messages.iter().map(of).collect());
    [
        (
            "scheme",
            Values::Text(messages.iter().map(|(run, _)| run.scheme.name().into()).collect()),
        ),
        ("seed", whole(|(run, _)| run.seed)),
        ("traffic", whole(|(_, flow)| flow.spec.traffic.into())),
        ("round", whole(|(_, flow)| flow.spec.round.into())),
        ("src", whole(|(_, flow)| flow.spec.src.into())),
        ("dst", whole(|(_, flow)| flow.spec.dst.into())),
        ("bytes", whole(|(_, flow)| flow.spec.bytes)),
        ("long_haul", Values::Truth(messages.iter().map(|(_, flow)| flow.is_long_haul).collect())),
        ("due_us", real(|(_, flow)| flow.due.min(flow.posted).as_nanos() as f64 / 1e3)),
        ("posted_us", real(|(_, flow)| flow.posted.as_nanos() as f64 / 1e3)),
        ("fct_us", optional(|(_, flow)| Some(flow.fct()?.as_nanos() as f64 / 1e3))),
        ("ideal_us", real(|(_, flow)| flow.ideal.as_nanos() as f64 / 1e3)),
        ("slowdown", optional(|(_, flow)| flow.slowdown())),
    ]
}

fn written(columns: &[(&str, Values)]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(|(name, values)| field(name, values).map(Arc::new));
    let schema = Type::group_type_builder("messages")
        .with_fields(fields.collect::<Result<_, _>>()?)
        .build()?;
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
    let mut group = file.next_row_group()?;
    for (_, values) in columns {
        if let Some(column) = group.next_column()? {
            write(column, values)?;
        }
    }
    group.close()?;
    file.into_inner()
}

fn field(name: &str, values: &Values) -> Result<Type, ParquetError> {
    use parquet::basic::LogicalType;
    let (physical, logical, repetition) = match values {
        Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        Values::Whole(_) => (Physical::INT64, None, Repetition::REQUIRED),
        Values::Real(_) => (Physical::DOUBLE, None, Repetition::REQUIRED),
        Values::Optional(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
        Values::Truth(_) => (Physical::BOOLEAN, None, Repetition::REQUIRED),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}

fn write(mut column: SerializedColumnWriter<'_>, values: &Values) -> Result<(), ParquetError> {
    match values {
        Values::Text(of) => column.typed::<ByteArrayType>().write_batch(of, None, None)?,
        Values::Whole(of) => column.typed::<Int64Type>().write_batch(of, None, None)?,
        Values::Real(of) => column.typed::<DoubleType>().write_batch(of, None, None)?,
        Values::Truth(of) => column.typed::<BoolType>().write_batch(of, None, None)?,
        Values::Optional(of) => {
            let present: Vec<f64> = of.iter().flatten().copied().collect();
            let levels: Vec<i16> = of.iter().map(|value| i16::from(value.is_some())).collect();
            column.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?
        }
    };
    column.close()
}
