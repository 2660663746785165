//! Formats text in columns.

use std::fmt::Write;

/// A table of text cells; the first row is the heading.
pub struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// Creates a table with these headings.
    pub fn new<T: ToString>(headings: impl IntoIterator<Item = T>) -> Columns {
        Columns { rows: vec![headings.into_iter().map(|heading| heading.to_string()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Appends the table to a text. Columns of numbers are right-aligned, other columns and the last one left-aligned, with two spaces
    /// between.
    pub fn print(&self, text: &mut String) {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: usize, column: usize| self.rows[row].get(column).map_or("", String::as_str);
        let width = |column| (0..self.rows.len()).map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..count).map(width).collect();
        let starts_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let has_numbers = |column: usize| self.rows.len() > 1 && (1..self.rows.len()).all(|row| starts_with_digit(cell(row, column)));
        let is_number: Vec<bool> = (0..count).map(|column| column + 1 < count && has_numbers(column)).collect();
        for row in 0..self.rows.len() {
            let mut line = String::from("  ");
            for column in 0..count {
                let _ = match is_number[column] {
                    true => write!(line, "{:>width$}  ", cell(row, column), width = widths[column]),
                    false => write!(line, "{:<width$}  ", cell(row, column), width = widths[column]),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}
