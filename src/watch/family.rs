//! Metric families in few words, written by `prometheus-client` as `OpenMetrics` text (version 1.0 of the specification, 2020).

use super::phase::{BOUNDS_MS, Durations};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Media type of what [`write`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything a collector has to say, every name after `veilsum_`.
pub(super) fn write(collector: impl Collector) -> String {
    let mut registry = Registry::with_prefix("veilsum");
    registry.register_collector(Box::new(collector));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = text::encode(&mut out, &registry);
    out
}

/// Writes one family after the other.
pub(super) struct Writer<'a>(pub(super) DescriptorEncoder<'a>);

pub(super) type Label<'a> = [(&'static str, &'a str); 1];

impl Writer<'_> {
    fn family<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        unit: Option<&'s Unit>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, unit, kind)
    }

    pub(super) fn build(&mut self) -> fmt::Result {
        self.family("build", "The program", None, MetricType::Info)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: &impl EncodeGaugeValue) -> fmt::Result {
        self.family(name, help, None, MetricType::Gauge)?
            .encode_gauge(value)
    }

    pub(super) fn gauges<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Label<'l>, impl EncodeGaugeValue)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, None, MetricType::Gauge)?;
        for (label, value) in values {
            family.encode_family(&label)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Points in time, POSIX seconds.
    pub(super) fn stamps<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Label<'l>, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for (label, value) in values {
            family.encode_family(&label)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.family(name, help, None, MetricType::Counter)?
            .encode_counter::<[(&str, &str); 0], _, u64>(&value, None)
    }

    pub(super) fn bytes(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.family(name, help, Some(&Unit::Bytes), MetricType::Counter)?
            .encode_counter::<[(&str, &str); 0], _, u64>(&value, None)
    }

    pub(super) fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Label<'l>, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, None, MetricType::Counter)?;
        for (label, value) in values {
            family
                .encode_family(&label)?
                .encode_counter::<[(&str, &str); 0], _, u64>(&value, None)?;
        }
        Ok(())
    }

    pub(super) fn durations<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (&'l &'static str, &'l Durations)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (phase, durations) in values {
            let bounds = BOUNDS_MS
                .iter()
                .map(|bound| seconds(*bound))
                .chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(durations.buckets).collect();
            family
                .encode_family(&[("phase", *phase)])?
                .encode_histogram::<[(&str, &str); 0]>(
                    seconds(durations.sum_ms),
                    durations.count,
                    &buckets,
                    None,
                )?;
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds of a run are far below 2^53"
)]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}
