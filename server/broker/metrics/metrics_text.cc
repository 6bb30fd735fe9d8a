#include "server/broker/metrics/metrics_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "scheduler/vgpu_state.h"

namespace tessera {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

ClientMetric Counter(Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.counter.value = value;
  return metric;
}

ClientMetric Gauge(Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  return metric;
}

ClientMetric Histogram(Labels labels, const HandOverTimes& times) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.histogram.sample_sum = static_cast<double>(times.sum_ns) / 1e9;
  for (size_t i = 0; i < times.counts.size(); ++i) {
    metric.histogram.sample_count += times.counts[i];
    const bool is_last = i == HandOverTimes::kUpToNs.size();
    const double up_to_s =
        is_last ? std::numeric_limits<double>::infinity() : static_cast<double>(HandOverTimes::kUpToNs[i]) / 1e9;
    metric.histogram.bucket.push_back({metric.histogram.sample_count, up_to_s});
  }
  return metric;
}

Labels LabelsOf(const GpuMetrics& gpu) { return {{"gpu", gpu.gpu}}; }
Labels LabelsOf(const VgpuMetrics& vgpu) { return {{"vgpu", vgpu.name}, {"gpu", vgpu.gpu}}; }

class Families {
 public:
  explicit Families(const Metrics& metrics) : metrics_(metrics) {}

  void Add(std::string name, std::string help, MetricType type, std::vector<ClientMetric> series) {
    if (!series.empty()) families_.push_back({std::move(name), std::move(help), type, std::move(series)});
  }
  // One series for each vGPU of whom `value` says something.
  template <typename Value>
  void OfVgpus(std::string name, std::string help, MetricType type, Value value) {
    std::vector<ClientMetric> series;
    for (const VgpuMetrics& vgpu : metrics_.vgpus) {
      const double number = static_cast<double>(value(vgpu));
      series.push_back(type == MetricType::Counter ? Counter(LabelsOf(vgpu), number) : Gauge(LabelsOf(vgpu), number));
    }
    Add(std::move(name), std::move(help), type, std::move(series));
  }
  std::string Text() const {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, families_);
    return std::move(text).str();
  }

 private:
  const Metrics& metrics_;
  std::vector<MetricFamily> families_;
};

void AddVgpus(const Metrics& metrics, Families* families) {
  constexpr auto kCounter = MetricType::Counter;
  constexpr auto kGauge = MetricType::Gauge;
  using V = VgpuMetrics;
  families->OfVgpus("tessera_vgpu_busy_seconds_total", "GPU time that the vGPU was billed while the GPU was metered.", kCounter,
                    [](const V& v) { return v.busy_s; });
  families->OfVgpus("tessera_vgpu_wait_seconds_total", "Time that work of the vGPU waited for a token while nothing of it ran.",
                    kCounter, [](const V& v) { return v.waited_s; });
  families->OfVgpus("tessera_vgpu_active_seconds_total",
                    "Time in which a session of the vGPU made calls, by tenths of a second, whether or not the GPU was metered.",
                    kCounter, [](const V& v) { return v.active_s; });
  families->OfVgpus("tessera_vgpu_grants_total", "Tokens that the vGPU got.", kCounter, [](const V& v) { return v.grants; });
  families->OfVgpus("tessera_vgpu_kernel_launches_total", "Calls that launched a kernel.", kCounter,
                    [](const V& v) { return v.work.kernels; });
  families->OfVgpus("tessera_vgpu_graph_launches_total", "Graphs that were launched.", kCounter,
                    [](const V& v) { return v.work.graphs; });
  families->OfVgpus("tessera_vgpu_copied_to_gpu_bytes_total", "Bytes that were copied from host memory to the GPU.", kCounter,
                    [](const V& v) { return v.work.bytes_to; });
  families->OfVgpus("tessera_vgpu_copied_from_gpu_bytes_total", "Bytes that were copied from the GPU to host memory.", kCounter,
                    [](const V& v) { return v.work.bytes_from; });
  families->OfVgpus("tessera_vgpu_audit_findings_total", "Times that the audit found a session which uses more than it reports.",
                    kCounter, [](const V& v) { return v.audit_findings; });
  families->OfVgpus("tessera_vgpu_audit_memory_findings_total",
                    "Times that the audit found a session whose worker uses more GPU memory than it reports.", kCounter,
                    [](const V& v) { return v.audit_memory_findings; });
  families->OfVgpus("tessera_vgpu_share_used_ratio", "Share of the GPU's time within the last 10 s; 0 while it is not metered.",
                    kGauge, [](const V& v) { return v.used_10s; });
  families->OfVgpus("tessera_vgpu_share_request_ratio", "Share that the vGPU gets whenever it wants it.", kGauge,
                    [](const V& v) { return v.request; });
  families->OfVgpus("tessera_vgpu_share_limit_ratio", "Share that the vGPU never exceeds.", kGauge,
                    [](const V& v) { return v.limit; });
  families->OfVgpus("tessera_vgpu_sessions", "Sessions in the vGPU.", kGauge, [](const V& v) { return v.sessions; });
  families->OfVgpus("tessera_vgpu_memory_held_bytes", "GPU memory that sessions of the vGPU hold.", kGauge,
                    [](const V& v) { return v.memory_held_bytes; });
  std::vector<ClientMetric> kinds, limits;
  for (const V& vgpu : metrics.vgpus) {
    for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
      Labels labels = LabelsOf(vgpu);
      labels.push_back({"kind", std::string(kMemoryKindNames[kind])});
      kinds.push_back(Gauge(std::move(labels), static_cast<double>(vgpu.memory_held_by_kind[kind])));
    }
    if (vgpu.memory_limit_bytes != 0) limits.push_back(Gauge(LabelsOf(vgpu), static_cast<double>(vgpu.memory_limit_bytes)));
  }
  families->Add("tessera_vgpu_memory_kind_bytes", "GPU memory that sessions of the vGPU hold, by what it was taken for.", kGauge,
                std::move(kinds));
  families->Add("tessera_vgpu_memory_limit_bytes", "GPU memory that sessions of the vGPU may hold; none for one without a limit.",
                kGauge, std::move(limits));
}

void AddGpus(const Metrics& metrics, const Metrics* before, Families* families) {
  std::vector<ClientMetric> modes, busy, ratio, hand_overs;
  for (size_t row = 0; row < metrics.gpus.size(); ++row) {
    const GpuMetrics& gpu = metrics.gpus[row];
    for (const GpuMode mode : {GpuMode::kFree, GpuMode::kArmed, GpuMode::kMetered}) {
      modes.push_back(
          Counter({{"gpu", gpu.gpu}, {"mode", std::string(GpuModeName(mode))}}, gpu.in_mode_s[static_cast<size_t>(mode)]));
    }
    busy.push_back(Counter(LabelsOf(gpu), gpu.busy_s));
    hand_overs.push_back(Histogram(LabelsOf(gpu), gpu.hand_overs));
    if (before == nullptr) continue;
    constexpr auto kMetered = static_cast<size_t>(GpuMode::kMetered);
    const double metered_s = gpu.in_mode_s[kMetered] - before->gpus[row].in_mode_s[kMetered];
    if (metered_s > 0) ratio.push_back(Gauge(LabelsOf(gpu), (gpu.busy_s - before->gpus[row].busy_s) / metered_s));
  }
  families->Add(
      "tessera_gpu_mode_seconds_total",
      "Time in each mode: free (one vGPU alone, nothing is metered), armed (others have sessions), metered (by tokens).",
      MetricType::Counter, std::move(modes));
  families->Add("tessera_gpu_busy_seconds_total", "Time in which work of any vGPU ran while the GPU was metered.",
                MetricType::Counter, std::move(busy));
  families->Add("tessera_gpu_busy_ratio",
                "Share of the metered time since metrics were asked for last in which work of any vGPU ran; none without.",
                MetricType::Gauge, std::move(ratio));
  families->Add("tessera_gpu_hand_over_seconds",
                "From the end of one vGPU's token, or from when the next one wanted the GPU if later, to the next one's token.",
                MetricType::Histogram, std::move(hand_overs));
}

}  // namespace

std::string MetricsText(const Metrics& metrics, const Metrics* before, uint64_t restarts) {
  Families families(metrics);
  AddVgpus(metrics, &families);
  AddGpus(metrics, before, &families);
  families.Add("tessera_broker_restarts_total",
               "Brokers of this server that ended before this one; counters above begin anew then.", MetricType::Counter,
               {Counter({}, static_cast<double>(restarts))});
  return families.Text();
}

}  // namespace tessera
