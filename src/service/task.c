/* Lists of tasks. */
#include "service/task.h"

void mp_task_push(mp_task_list *list, mp_task *task) {
  task->next = NULL;
  task->previous = list->last;
  if (list->last == NULL) {
    list->first = task;
  } else {
    list->last->next = task;
  }
  list->last = task;
  list->count++;
}

void mp_task_unlink(mp_task_list *list, mp_task *task) {
  *(task->previous == NULL ? &list->first : &task->previous->next) = task->next;
  *(task->next == NULL ? &list->last : &task->next->previous) = task->previous;
  task->next = task->previous = NULL;
  list->count--;
}

mp_task *mp_task_pop(mp_task_list *list) {
  mp_task *task = list->first;
  if (task != NULL) mp_task_unlink(list, task);
  return task;
}
