// Faults as users write them, one and by the file. Properties: what is accepted is within its
// bounds, keeps its text, and that text gives the same fault again.
#include <string>
#include <string_view>

#include "base/str.h"
#include "fuzz/fuzz_target.h"
#include "live/fault/fault_spec.h"

namespace paceline::fuzz {
namespace {

using fault::FaultKind;
using fault::FaultPhase;
using fault::FaultSpec;

constexpr Duration kLongest = Duration::seconds(86400);

std::string random_fault(Rng& rng) {
  const auto kind = static_cast<FaultKind>(rng.below(static_cast<uint64_t>(FaultKind::Poison) + 1));
  std::string text = str(fault::name_of(kind), "@step=", rng.below(1000));
  if (!rng.chance_ppm(100'000)) text += str(":rank=", rng.below(16));
  const auto phase =
      static_cast<FaultPhase>(rng.below(static_cast<uint64_t>(FaultPhase::Trial) + 1));
  if (rng.chance_ppm(500'000)) text += str(",phase=", fault::name_of(phase));
  if (rng.chance_ppm(300'000)) text += str(",after_us=", rng.below(100'000));
  if (rng.chance_ppm(300'000))
    text += str(",for=", rng.below(5000), rng.below(2) == 0 ? "ms" : "s");
  if (rng.chance_ppm(100'000)) text += ",for=ever";
  if (rng.chance_ppm(300'000)) text += str(",factor=", 1 + rng.below(9), ".", 1 + rng.below(9));
  if (rng.chance_ppm(100'000)) text += str(",micro_batch=", rng.below(64));
  return text;
}

bool is_same(const FaultSpec& one, const FaultSpec& other) {
  return one.kind == other.kind && one.step == other.step && one.rank == other.rank &&
         one.phase == other.phase && one.after == other.after && one.lasts == other.lasts &&
         one.lasts_for_ever == other.lasts_for_ever && one.factor == other.factor &&
         one.micro_batch == other.micro_batch && one.text == other.text;
}

void check_fault(const FaultSpec& spec) {
  CHECK(fault::name_of(spec.kind) != "unknown");
  CHECK(fault::name_of(spec.phase) != "unknown");
  CHECK(spec.factor > 1 && spec.factor <= 1000, spec.factor);
  CHECK(spec.after >= Duration() && spec.after <= kLongest);
  CHECK(!spec.lasts || (*spec.lasts >= Duration() && *spec.lasts <= kLongest));
  CHECK(spec.rank || spec.kind == FaultKind::KillController);
  const Result<FaultSpec> again = fault::parse_fault(spec.text);
  CHECK(again.has_value() && is_same(spec, *again), spec.text);
}

}  // namespace

Bytes make_seed(Rng& rng) {
  std::string text = random_fault(rng);
  for (uint64_t more = rng.below(3); more > 0; --more)
    text += str(rng.below(2) == 0 ? "\n" : "  # why\n\n", random_fault(rng));
  return to_bytes(text);
}

void check_input(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const Result<FaultSpec> one = fault::parse_fault(text);
  if (one.has_value()) {
    CHECK(one->text == text);
    check_fault(*one);
  }
  const Result<std::vector<FaultSpec>> lines = fault::parse_fault_lines(text);
  if (lines.has_value()) {
    for (const FaultSpec& spec : *lines) check_fault(spec);
  } else {
    CHECK(lines.error().message.starts_with("line "), lines.error().message);
    CHECK(lines.error().message.find('\n') == std::string::npos, lines.error().message);
  }
}

}  // namespace paceline::fuzz
