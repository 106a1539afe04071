// Checkpoints of a job: which rank copies the state and when, and how a new run takes it up again.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/str.h"
#include "live/checkpoint/checkpoint_directory.h"
#include "live/os/clock.h"
#include "live/worker/job.h"

namespace paceline::worker {
checkpoint::Manifest Job::manifest() const {
  const rank::RankCore& core = session_->core();
  checkpoint::Manifest manifest{
      .order = {checkpoints_.options().generation, core.epoch().number, core.position().committed},
      .step = core.position().step,
      .round = core.position().round,
      .micro_batches = core.epoch().micro_batches(),
      .seed = seed_,
      .reduce = reduce_,
      .parts = {},
      .own_state_bytes = 0,
      .checksums = {}};
  for (const StateRegistry::Part& part : state_.parts())
    manifest.parts.push_back({part.name, part.bytes.size()});
  return manifest;
}

bool Job::is_at_boundary() const {
  if (!session_->is_started()) return false;
  const rank::RankCore& core = session_->core();
  return core.epoch().number != EpochNumber(0) && !core.is_open() && session_->is_lead();
}

void Job::save_state(SaveWhen when) {
  if (!checkpoints_.is_wanted()) return;
  CheckpointWriter::Copy copy;
  std::vector<std::byte> own_state;
  const Instant begun = os::now();
  {
    const os::MutexLock lock(mutex_);
    if (!is_at_boundary()) return;
    const Step step = session_->core().position().step;
    const bool is_saved = checkpoints_.passed() == step || step == Step(0);
    if (when == SaveWhen::Last ? is_saved : !checkpoints_.is_due(step, begun)) return;
    copy.manifest = manifest();
    own_state = session_->own_state();
  }
  if (when == SaveWhen::Last) (void)checkpoints_.finish();  // the one before, which says so itself
  // Without the mutex: nothing else touches the state, and no turn can be committed meanwhile.
  copy.manifest.own_state_bytes = own_state.size();
  copy.data = checkpoints_.take_memory();
  copy.data.clear();
  copy.data.reserve(copy.manifest.data_bytes());
  for (const StateRegistry::Part& part : state_.parts())
    copy.data.insert(copy.data.end(), part.bytes.begin(), part.bytes.end());
  copy.data.insert(copy.data.end(), own_state.begin(), own_state.end());
  copy.cost = os::now() - begun;
  checkpoints_.write(std::move(copy));
}

void Job::save_last_state() {
  save_state(SaveWhen::Last);
  (void)checkpoints_.finish();
}

// --- Resume ---

std::string Job::misfit(const checkpoint::Manifest& manifest, uint64_t own_state_bytes) const {
  if (manifest.seed != seed_) return str("its seed is ", manifest.seed, ", this run's ", seed_);
  if (manifest.reduce != reduce_)
    return str("it was made with --reduce ",
               manifest.reduce == ReduceMode::Exact ? "exact" : "fast");
  const std::vector<StateRegistry::Part>& parts = state_.parts();
  for (size_t i = 0; i < std::max(parts.size(), manifest.parts.size()); ++i) {
    if (i >= parts.size())
      return str("it has state '", manifest.parts[i].name, "', which is not registered");
    if (i >= manifest.parts.size()) return str("it has no state '", parts[i].name, "'");
    const checkpoint::Manifest::Part& saved = manifest.parts[i];
    if (saved.name != parts[i].name)
      return str("its state number ", i, " is '", saved.name, "', here it is '", parts[i].name,
                 "'");
    if (saved.size_bytes != parts[i].bytes.size())
      return str("its state '", saved.name, "' has ", saved.size_bytes, " bytes, here it has ",
                 parts[i].bytes.size());
  }
  if (manifest.own_state_bytes != own_state_bytes)
    return str("its buckets are others: ", manifest.own_state_bytes, " bytes of scales, here ",
               own_state_bytes);
  return {};
}

paceline_status Job::resume() {
  const std::string& path = checkpoints_.options().resume_from;
  if (stage_ != Stage::Setup || path.empty()) return PACELINE_OK;
  Result<checkpoint::Loaded> loaded = checkpoint::load(path);
  if (!loaded) return fail(PACELINE_EIO, "begin_step: cannot resume: " + loaded.error().message);
  // All ranks see the same; one says it.
  if (rank_.slot == SlotId(0))
    for (const Error& error : loaded->passed_over)
      std::fprintf(stderr, "paceline: %s; resuming from %s\n", error.message.c_str(),
                   loaded->path.c_str());
  const checkpoint::Manifest& manifest = loaded->checkpoint.manifest;
  uint64_t own_state_bytes = 0;
  for (const Bucket& bucket : registered_) own_state_bytes += bucket.scales_bytes();
  if (const std::string why = misfit(manifest, own_state_bytes); !why.empty())
    return fail(PACELINE_EINVAL, str("begin_step: cannot resume from ", loaded->path, ": ", why));

  std::span<const std::byte> rest(loaded->checkpoint.data);
  for (const StateRegistry::Part& part : state_.parts()) {
    std::copy_n(rest.begin(), part.bytes.size(), part.bytes.begin());
    rest = rest.subspan(part.bytes.size());
  }
  for (Bucket& bucket : registered_) {
    bucket.set_micro_batches(manifest.micro_batches);
    if (!bucket.load_scales(rest.first(bucket.scales_bytes())))
      return fail(PACELINE_EIO, "begin_step: malformed scales in " + loaded->path);
    rest = rest.subspan(bucket.scales_bytes());
  }
  initial_ = {manifest.order.committed, manifest.step, manifest.round};
  resumed_micro_batches_ = manifest.micro_batches;
  checkpoints_.set_passed(manifest.step);
  return PACELINE_OK;
}

}  // namespace paceline::worker
