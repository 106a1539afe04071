// The training text, its split into a training and a held-out part, and the sequences drawn from
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "gpt/model.h"

namespace gpt {

struct CorpusError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The King James Bible (4.4 MB), printed by the reader of the Debian packages bible-kjv and
// bible-kjv-text. Throws CorpusError if the reader is missing or fails.
std::string read_bible();

// Throws CorpusError if `path` cannot be read.
std::string read_text_file(const std::string& path);

class Corpus final {
 public:
  // Throws CorpusError if either part is too short for one sequence of `context` bytes and its
  // targets.
  Corpus(std::string text, size_t context);

  // The first 95% and the rest.
  std::span<const char> training() const { return {text_.data(), training_size_}; }
  std::span<const char> held_out() const { return std::span(text_).subspan(training_size_); }

  // Sequences at random places of the training part; a function of the text and `seed` alone.
  Batch training_batch(uint64_t seed, size_t sequences) const;

  // Sequences at even distances over the held-out part, always the same.
  Batch held_out_batch(size_t sequences) const;

 private:
  void append_sequence(std::span<const char> part, size_t start, Batch& batch) const;

  std::string text_;
  size_t context_;
  size_t training_size_;
};

}  // namespace gpt
