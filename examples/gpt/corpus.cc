#include "gpt/corpus.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

namespace gpt {
namespace {

constexpr size_t kHeldOutPerCent = 5;
// Without input the reader would wait for verses to look up; -f gives one line per verse.
constexpr const char* kBibleCommand = "bible -f gen1:1-rev22:21 </dev/null 2>/dev/null";

}  // namespace

std::string read_bible() {
  std::FILE* const pipe = ::popen(kBibleCommand, "r");
  if (pipe == nullptr) throw CorpusError("cannot start a shell to run the reader `bible`");
  std::string text;
  std::array<char, 65536> chunk;
  for (size_t size = 0; (size = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    text.append(chunk.data(), size);
  }
  const int status = ::pclose(pipe);
  if (status != 0 || text.empty()) {
    throw CorpusError(
        "the reader `bible` gave no text (wait status " + std::to_string(status) +
        "): install the packages bible-kjv and bible-kjv-text, or name a text with --data");
  }
  return text;
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw CorpusError("cannot open " + path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) throw CorpusError("cannot read " + path);
  return text;
}

Corpus::Corpus(std::string text, size_t context)
    : text_(std::move(text)),
      context_(context),
      training_size_(text_.size() - text_.size() * kHeldOutPerCent / 100) {
  const size_t shortest = std::min(training().size(), held_out().size());
  if (shortest < context_ + 1) {
    throw CorpusError("a text of " + std::to_string(text_.size()) +
                      " bytes is too short: its held-out part, " + std::to_string(kHeldOutPerCent) +
                      "%, must have more than " + std::to_string(context_) + " bytes");
  }
}

Batch Corpus::training_batch(uint64_t seed, size_t sequences) const {
  std::mt19937_64 generator(seed);
  const size_t starts = training().size() - context_;
  Batch batch;
  for (size_t i = 0; i < sequences; ++i) {
    // The remainder favours early places by less than one part in 10^12, which no training notices.
    append_sequence(training(), generator() % starts, batch);
  }
  return batch;
}

Batch Corpus::held_out_batch(size_t sequences) const {
  const size_t starts = held_out().size() - context_;
  Batch batch;
  for (size_t i = 0; i < sequences; ++i) {
    append_sequence(held_out(), i * starts / sequences, batch);
  }
  return batch;
}

void Corpus::append_sequence(std::span<const char> part, size_t start, Batch& batch) const {
  for (size_t i = start; i < start + context_; ++i) {
    batch.inputs.push_back(static_cast<uint8_t>(part[i]));
    batch.targets.push_back(static_cast<uint8_t>(part[i + 1]));
  }
}

}  // namespace gpt
