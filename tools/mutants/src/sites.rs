//! Finds the places in a source file that can be mutated without changing a type.
//!
//! A [`Site`] is a byte range of the file with the mutants that can replace it. The text of a mutant consists of the original text of its
//! parts, so formatting and comments stay. Whether a mutant type-checks is found by the build.
//!
//! Excluded are tests, constants and `const fn`, patterns, types, attributes, macro arguments (and therefore assertions),
//! implementations of `Debug` and `Display`, and capacities (`with_capacity`, `reserve`), whose mutants no test can detect.

use std::collections::BTreeMap;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Stmt, UnOp};

/// How a mutant replaces the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replacement {
    /// An expression replaces an expression.
    Expression,
    /// A statement is removed.
    Statement,
    /// A statement is added at the start of a function body.
    Entry,
}

/// A mutant: its kind and its text.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub kind: &'static str,
    pub text: String,
}

/// A place that can be mutated.
#[derive(Clone, Debug)]
pub struct Site {
    pub range: Range<usize>,
    pub shape: Replacement,
    pub mutants: Vec<Mutant>,
}

/// Returns the sites of a file, outer sites before inner ones.
pub fn find(text: &str) -> syn::Result<Vec<Site>> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { text, sites: BTreeMap::new() };
    finder.visit_file(&file);
    let mut sites: Vec<Site> =
        finder.sites.into_iter().map(|((start, end, shape), mutants)| Site { range: start..end, shape, mutants }).collect();
    sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end), site.shape));
    Ok(sites)
}

/// Returns the names of the modules of a file that are in files of their own and compiled for tests only: `#[cfg(test)] mod name;`.
pub fn test_modules(text: &str) -> syn::Result<Vec<String>> {
    let file = syn::parse_file(text)?;
    let modules = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    });
    Ok(modules.collect())
}

/// Collects sites while visiting the syntax tree.
struct Finder<'a> {
    text: &'a str,
    sites: BTreeMap<(usize, usize, Replacement), Vec<Mutant>>,
}

impl Finder<'_> {
    fn text(&self, node: &impl Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    fn add(&mut self, range: Range<usize>, shape: Replacement, kind: &'static str, text: String) {
        self.sites.entry((range.start, range.end, shape)).or_default().push(Mutant { kind, text });
    }

    fn replace(&mut self, node: &Expr, kind: &'static str, text: String) {
        self.add(node.span().byte_range(), Replacement::Expression, kind, text);
    }

    /// Replaces a condition by true and false. In a chain with `let`, each part is replaced separately.
    fn condition(&mut self, expr: &Expr, kind: &'static str, values: &[&str]) {
        match expr {
            Expr::Binary(binary) if has_let(expr) => {
                self.condition(&binary.left, kind, values);
                self.condition(&binary.right, kind, values);
            }
            Expr::Let(_) | Expr::Lit(_) => {}
            _ => values.iter().for_each(|value| self.replace(expr, kind, (*value).to_string())),
        }
    }

    fn binary(&mut self, expr: &Expr, binary: &syn::ExprBinary) {
        if has_let(expr) {
            return;
        }
        let (kind, operators) = operators(&binary.op);
        let (left, right) = (self.text(&binary.left).to_string(), self.text(&binary.right).to_string());
        for operator in operators {
            // The left side of an assignment is a place expression and must not be put in parentheses.
            let text = if operator.len() > 1 && operator.ends_with('=') && kind == "assignment" {
                format!("{left} {operator} ({right})")
            } else {
                format!("({left}) {operator} ({right})")
            };
            self.replace(expr, kind, text);
        }
    }

    fn literal(&mut self, expr: &Expr, lit: &Lit) {
        match lit {
            Lit::Int(int) => {
                let Ok(value) = int.base10_parse::<u64>() else { return };
                let suffix = int.suffix();
                self.replace(expr, "literal", format!("{}{suffix}", value.wrapping_add(1)));
                if value > 0 {
                    self.replace(expr, "literal", format!("{}{suffix}", value - 1));
                }
            }
            Lit::Bool(value) => self.replace(expr, "literal", (!value.value).to_string()),
            _ => {}
        }
    }

    fn method(&mut self, expr: &Expr, call: &syn::ExprMethodCall) {
        let Some(other) = opposite(&call.method.to_string()) else { return };
        let (whole, name) = (expr.span().byte_range(), call.method.span().byte_range());
        let text = format!("{}{other}{}", &self.text[whole.start..name.start], &self.text[name.end..whole.end]);
        self.replace(expr, "method", text);
    }

    fn bound(&mut self, bound: Option<&Expr>, change: &str) {
        if let Some(bound) = bound
            && !matches!(bound, Expr::Lit(_))
        {
            let text = format!("({}) {change}", self.text(bound));
            self.replace(bound, "range", text);
        }
    }

    /// Adds the deletion of a statement whose value is not used.
    fn statement(&mut self, statement: &Stmt) {
        let Stmt::Expr(expr, Some(semicolon)) = statement else { return };
        let kind = match expr {
            Expr::MethodCall(call) if matches!(call.method.to_string().as_str(), "reserve" | "shrink_to_fit") => return,
            Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_) => "delete",
            Expr::Binary(binary) if operators(&binary.op).0 == "assignment" => "delete",
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => "jump",
            _ => return,
        };
        let range = expr.span().byte_range().start..semicolon.span().byte_range().end;
        self.add(range, Replacement::Statement, kind, String::new());
    }

    /// Adds early returns of default values at the start of a function body.
    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if block.stmts.is_empty() {
            return;
        }
        let values: &[&str] = match &signature.output {
            syn::ReturnType::Default => &["return;"],
            syn::ReturnType::Type(_, result) => defaults(result),
        };
        let start = block.brace_token.span.open().byte_range().end;
        let whole = self.text(block).trim_matches(['{', '}']).trim().to_string();
        for value in values {
            if format!("return {whole};") != *value {
                self.add(start..start, Replacement::Entry, "body", (*value).to_string());
            }
        }
    }

    fn function(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature, block: &syn::Block) {
        if signature.constness.is_none() && !is_test(attributes) {
            self.body(signature, block);
            self.visit_block(block);
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let shows = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if !is_test(&item.attrs) && !shows.is_some_and(|last| last.ident == "Debug" || last.ident == "Display") {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        self.statement(statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => self.binary(expr, binary),
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => {
                let text = format!("({})", self.text(&unary.expr));
                self.replace(expr, "negation", text);
            }
            Expr::Lit(literal) => self.literal(expr, &literal.lit),
            Expr::MethodCall(call) => self.method(expr, call),
            Expr::If(branch) => self.condition(&branch.cond, "condition", &["true", "false"]),
            Expr::While(repeat) => self.condition(&repeat.cond, "condition", &["false"]),
            Expr::Range(range) => {
                self.bound(range.start.as_deref(), "+ 1");
                let closed = matches!(range.limits, syn::RangeLimits::Closed(_));
                self.bound(range.end.as_deref(), if closed { "- 1" } else { "+ 1" });
            }
            Expr::Macro(call) if call.mac.path.is_ident("matches") => {
                let text = format!("!{}", self.text(expr));
                self.replace(expr, "negation", text);
            }
            Expr::Call(call) if is_capacity(&call.func) => return,
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard, "guard", &["true", "false"]);
            self.visit_expr(guard);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::NameValue(_) => false,
    })
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn is_capacity(function: &Expr) -> bool {
    matches!(function, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "with_capacity"))
}

/// Returns the kind of an operator and its replacements.
fn operators(operator: &BinOp) -> (&'static str, &'static [&'static str]) {
    match operator {
        BinOp::Add(_) => ("arithmetic", &["-", "*"]),
        BinOp::Sub(_) => ("arithmetic", &["+", "/"]),
        BinOp::Mul(_) => ("arithmetic", &["+", "/"]),
        BinOp::Div(_) => ("arithmetic", &["*", "%"]),
        BinOp::Rem(_) => ("arithmetic", &["/", "+"]),
        BinOp::And(_) => ("logic", &["||"]),
        BinOp::Or(_) => ("logic", &["&&"]),
        BinOp::BitXor(_) => ("arithmetic", &["|", "&"]),
        BinOp::BitAnd(_) => ("arithmetic", &["|", "^"]),
        BinOp::BitOr(_) => ("arithmetic", &["&", "^"]),
        BinOp::Shl(_) => ("arithmetic", &[">>"]),
        BinOp::Shr(_) => ("arithmetic", &["<<"]),
        BinOp::Eq(_) => ("comparison", &["!="]),
        BinOp::Ne(_) => ("comparison", &["=="]),
        BinOp::Lt(_) => ("comparison", &["<=", ">="]),
        BinOp::Le(_) => ("comparison", &["<", ">"]),
        BinOp::Gt(_) => ("comparison", &[">=", "<="]),
        BinOp::Ge(_) => ("comparison", &[">", "<"]),
        BinOp::AddAssign(_) => ("assignment", &["-="]),
        BinOp::SubAssign(_) => ("assignment", &["+="]),
        BinOp::MulAssign(_) => ("assignment", &["+="]),
        BinOp::DivAssign(_) | BinOp::RemAssign(_) => ("assignment", &["*="]),
        BinOp::BitOrAssign(_) => ("assignment", &["&=", "^="]),
        BinOp::BitAndAssign(_) => ("assignment", &["|=", "^="]),
        BinOp::BitXorAssign(_) => ("assignment", &["|="]),
        BinOp::ShlAssign(_) => ("assignment", &[">>="]),
        BinOp::ShrAssign(_) => ("assignment", &["<<="]),
        _ => ("other", &[]),
    }
}

/// Returns the opposite method with the same signature.
fn opposite(method: &str) -> Option<&'static str> {
    Some(match method {
        "min" => "max",
        "max" => "min",
        "min_by_key" => "max_by_key",
        "max_by_key" => "min_by_key",
        "min_by" => "max_by",
        "max_by" => "min_by",
        "any" => "all",
        "all" => "any",
        "is_some" => "is_none",
        "is_none" => "is_some",
        "is_ok" => "is_err",
        "is_err" => "is_ok",
        "first" => "last",
        "last" => "first",
        "is_some_and" => "is_none_or",
        "is_none_or" => "is_some_and",
        "saturating_sub" => "saturating_add",
        "saturating_add" => "saturating_sub",
        "wrapping_add" => "wrapping_sub",
        "wrapping_sub" => "wrapping_add",
        "take_while" => "skip_while",
        "skip_while" => "take_while",
        _ => return None,
    })
}

/// Returns statements that return a constant of a type.
fn defaults(result: &syn::Type) -> &'static [&'static str] {
    let syn::Type::Path(path) = result else { return &[] };
    let Some(last) = path.path.segments.last() else { return &[] };
    match last.ident.to_string().as_str() {
        "bool" => &["return false;", "return true;"],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => &["return 0;", "return 1;"],
        "Option" => &["return None;"],
        "Vec" => &["return Vec::new();"],
        "String" => &["return String::new();"],
        "Result" => &["return Ok(Default::default());"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(&'static str, String)> {
        find(text).unwrap().into_iter().flat_map(|site| site.mutants).map(|mutant| (mutant.kind, mutant.text)).collect()
    }

    #[test]
    fn comparison_and_condition_share_a_site() {
        let sites = find("fn f(a: u8, b: S) -> S { if a < 3 { g() } else { b } }").unwrap();
        let whole = sites.iter().find(|site| site.mutants.len() == 4).expect("`a < 3` as condition and as comparison");
        let texts: Vec<&str> = whole.mutants.iter().map(|mutant| mutant.text.as_str()).collect();
        assert_eq!(texts, ["true", "false", "(a) <= (3)", "(a) >= (3)"]);
    }

    #[test]
    fn tests_constants_patterns_and_macros_are_left_out() {
        let text = "const A: u8 = 1 + 2; #[cfg(test)] mod t { fn f() -> u8 { 1 } } const fn g() -> u8 { 4 }
            fn h(x: u8) -> S { match x { 5 => a(), _ => assert!(x < 6) } }";
        assert_eq!(kinds(text), []);
    }

    #[test]
    fn modules_for_tests_are_found() {
        let text = "mod a; #[cfg(test)] mod b; #[cfg(test)] mod c { mod d; } #[cfg(unix)] mod e; #[cfg(test)] pub(crate) mod f;";
        assert_eq!(test_modules(text).unwrap(), ["b", "f"]);
    }

    #[test]
    fn chains_with_let_keep_their_operator() {
        let found = kinds("fn f() -> S { if let Some(x) = y && x { z } else { w } }");
        assert_eq!(found, [("condition", "true".to_string()), ("condition", "false".to_string())]);
    }

    #[test]
    fn statements_and_bodies() {
        let found = kinds("fn f(v: &mut V) { v.push(a); }");
        assert_eq!(found, [("body", "return;".to_string()), ("delete", String::new())]);
    }
}
