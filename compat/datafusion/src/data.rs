//! The tables of TPC-H as Parquet files.

use std::fs::{self, File};
use std::path::Path;

use datafusion::arrow::record_batch::RecordBatchReader;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use tpchgen::generators::{CustomerGenerator, LineItemGenerator, OrderGenerator, PartGenerator};
use tpchgen_arrow::{CustomerArrow, LineItemArrow, OrderArrow, PartArrow};

use crate::Failure;

/// The tables that the queries read.
pub const TABLES: [&str; 4] = ["customer", "lineitem", "orders", "part"];
/// `lineitem` then has 600,000 rows.
const SCALE: f64 = 0.1;
/// So that `lineitem` has several row groups, which several workers read.
const ROWS_PER_GROUP: usize = 1 << 16;

/// Writes the files that `folder` does not have.
pub fn write(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    for table in TABLES {
        let path = path(folder, table);
        if path.exists() {
            continue;
        }
        // A run that is interrupted leaves no half of a table.
        let unfinished = path.with_extension("unfinished");
        write_table(&unfinished, rows(table))?;
        fs::rename(unfinished, path)?;
    }
    Ok(())
}

pub fn path(folder: &Path, table: &str) -> std::path::PathBuf {
    folder.join(table).with_extension("parquet")
}

fn rows(table: &str) -> Box<dyn RecordBatchReader> {
    match table {
        "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1))),
        "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1))),
        "orders" => Box::new(OrderArrow::new(OrderGenerator::new(SCALE, 1, 1))),
        "part" => Box::new(PartArrow::new(PartGenerator::new(SCALE, 1, 1))),
        _ => unreachable!("no query reads `{table}`"),
    }
}

fn write_table(path: &Path, rows: Box<dyn RecordBatchReader>) -> Result<(), Failure> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, rows.schema(), Some(properties))?;
    for batch in rows {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}
