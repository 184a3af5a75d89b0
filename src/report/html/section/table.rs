//! Tables that become lists of cards on a phone.

use crate::report::html::escape;

/// A table; its cells are HTML.
pub(super) struct Table<'a> {
    names: &'a [&'a str],
    rows: String,
}

impl<'a> Table<'a> {
    /// A table with these columns.
    pub(super) fn new(names: &'a [&'a str]) -> Self {
        Self {
            names,
            rows: String::new(),
        }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push_str("<tr>");
        for (name, cell) in self.names.iter().zip(cells) {
            self.rows.push_str("<td data-label=\"");
            self.rows.push_str(&escape(name));
            self.rows.push_str("\"><div>");
            self.rows.push_str(&cell);
            self.rows.push_str("</div></td>");
        }
        self.rows.push_str("</tr>\n");
    }

    /// The table as HTML of a class.
    pub(super) fn html(&self, class: &str) -> String {
        let names: Vec<String> = self
            .names
            .iter()
            .map(|name| format!(r#"<th scope="col">{}</th>"#, escape(name)))
            .collect();
        format!(
            "<div class=\"scroll\"><table class=\"{class}\"><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>",
            names.concat(),
            self.rows
        )
    }
}
