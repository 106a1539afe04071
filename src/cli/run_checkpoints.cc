#include "cli/run_checkpoints.h"

#include <filesystem>

#include "base/str.h"
#include "core/model/job.h"
#include "live/checkpoint/checkpoint_directory.h"

namespace paceline::cli {
namespace {

Failure misfit(const std::string& what, const std::string& remedy) {
  return {ErrorCode::InvalidArgument, what + "; " + remedy};
}

Status take_over(RunOptions& options, const checkpoint::Entry& newest) {
  const checkpoint::Manifest& manifest = newest.manifest;
  if (options.micro_batches != 0 && options.micro_batches != manifest.micro_batches)
    return misfit(str("--micro-batches ", options.micro_batches, " is not the ",
                      manifest.micro_batches, " of ", newest.path),
                  "leave it out, or resume from another directory");
  if (options.ranks() > manifest.micro_batches)
    return misfit(str(options.ranks(), " ranks are more than the ", manifest.micro_batches,
                      " micro-batches of ", newest.path),
                  "use fewer ranks");
  if (options.seed.value_or(manifest.seed) != manifest.seed)
    return misfit(str("--seed ", *options.seed, " is not the ", manifest.seed, " of ", newest.path),
                  "leave it out");
  options.micro_batches = manifest.micro_batches;
  options.resume_from = newest.path;
  options.notes.push_back(str("pace: resuming at step ", manifest.step, " from ", newest.path));
  return {};
}

}  // namespace

Status choose_checkpoint(RunOptions& options) {
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(options.checkpoint_directory, ignored);
  if (!ignored) options.checkpoint_directory = absolute.lexically_normal().string();
  checkpoint::remove_unfinished(options.checkpoint_directory);
  const std::vector<checkpoint::Entry> entries = checkpoint::list(options.checkpoint_directory);
  if (entries.empty()) {
    if (options.is_resuming)
      options.notes.push_back(
          str("pace: no checkpoint in ", options.checkpoint_directory, " yet: starting at step 0"));
    return {};
  }
  const checkpoint::Entry& newest = entries.front();
  options.checkpoint_generation = newest.manifest.order.generation + 1;
  if (options.is_resuming) return take_over(options, newest);
  options.notes.push_back(str("pace: starting at step 0; the checkpoints of an earlier run in ",
                              options.checkpoint_directory, " (newest: step ", newest.manifest.step,
                              ") will be replaced, --resume would continue it"));
  return {};
}

std::vector<std::pair<std::string, std::string>> checkpoint_environment(const RunOptions& options) {
  if (options.checkpoint_directory.empty()) return {};
  std::vector<std::pair<std::string, std::string>> environment{
      {checkpoint::kDirectoryVariable, options.checkpoint_directory},
      {checkpoint::kEveryVariable,
       options.checkpoint_every.empty() ? "auto" : options.checkpoint_every},
      {checkpoint::kGenerationVariable, str(options.checkpoint_generation)}};
  // Set in any case: a variable of the user's own environment must not decide.
  environment.emplace_back(checkpoint::kResumeVariable, options.resume_from.empty() ? "0" : "1");
  environment.emplace_back(kResumeFromVariable, options.resume_from);
  return environment;
}

}  // namespace paceline::cli
