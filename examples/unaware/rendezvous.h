// Rendezvous: how the ranks of a torchrun job meet at MASTER_ADDR:MASTER_PORT and keep step.
//
// Rank 0 listens, the others connect; all_reduce is a star through rank 0. A peer that is gone, or
// silent for a minute, is an exception, as it is an error of the collective library in a real
// trainer: such a program can only end and be started again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unaware {

// What torchrun says to each process.
struct Environment {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;
  uint32_t restart_count = 0;
  std::string master_address;
  std::string master_port;
};
// Throws std::runtime_error naming the variable that is missing.
Environment read_environment();

class Rendezvous final {
 public:
  // Returns when all ranks are there.
  explicit Rendezvous(const Environment& environment);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // The sum of every rank's value (mod 2^64), on every rank.
  uint64_t all_reduce(uint64_t value);

 private:
  void accept_all(const Environment& environment);
  void connect_to_master(const Environment& environment);

  std::vector<int> peers_;  // of rank 0: all others; of the others: rank 0
  bool is_master_;
};

}  // namespace unaware
