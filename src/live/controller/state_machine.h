// StateMachine: the shell's view of ControllerCore, so that tests can put another one in its place.
#pragma once

#include <memory>
#include <optional>

#include "base/time.h"
#include "core/control/controller_core.h"

namespace paceline::controller {

class StateMachine {
 public:
  virtual ~StateMachine() = default;
  virtual void restore(const control::JournalRecord& record) = 0;
  virtual void step(Instant now, const control::Event& event) = 0;
  virtual control::Effects take_effects() = 0;
  virtual std::optional<Instant> next_deadline() const = 0;
  virtual bool is_finished() const = 0;
};

std::unique_ptr<StateMachine> make_controller_core();

}  // namespace paceline::controller
