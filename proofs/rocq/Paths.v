(** Tables that reach their people through a key of another table.

    [links] says which key leads to which person; the rows of a path table carry a key. *)

From Coq Require Import List Bool Arith Lia.
Import ListNotations.

Section Paths.
Context {Person Key Row : Type}.
Variables (EqP : forall u v : Person, {u = v} + {u <> v}) (EqK : forall a b : Key, {a = b} + {a <> b}).
Variable key : Row -> Key.

Definition leads (links : list (Key * Person)) (k : Key) (u : Person) : bool :=
  existsb (fun p => if EqK (fst p) k then if EqP (snd p) u then true else false else false) links.

Lemma leads_in links k u : leads links k u = true <-> In (k, u) links.
Proof.
  unfold leads. rewrite existsb_exists. split.
  - intros ((k', u') & I & E). simpl in E. destruct (EqK k' k), (EqP u' u); try discriminate. subst. auto.
  - intros I. exists (k, u). split; auto. simpl. destruct (EqK k k), (EqP u u); congruence.
Qed.

(** The rule of the copy: a row belongs to each person to whom its key leads. *)
Definition rows_by_path (u : Person) (links : list (Key * Person)) (rows : list Row) : list Row :=
  filter (fun r => leads links (key r) u) rows.

Definition links_without (u : Person) (links : list (Key * Person)) : list (Key * Person) :=
  filter (fun p => if EqP (snd p) u then false else true) links.

(** A row that belongs to u and to no other person. *)
Definition of_u_alone (u : Person) (links : list (Key * Person)) (r : Row) : bool :=
  forallb (fun p => if EqK (fst p) (key r) then if EqP (snd p) u then true else false else true) links.

(** Neighbours in u: they differ in links that name u, and in rows that belong to u alone. *)
Definition differ_in (u : Person) (links links' : list (Key * Person)) (rows rows' : list Row) : Prop :=
  links_without u links = links_without u links' /\
  filter (fun r => negb (of_u_alone u links r)) rows = filter (fun r => negb (of_u_alone u links' r)) rows'.

Lemma leads_without u v links k : v <> u -> leads links k v = leads (links_without u links) k v.
Proof.
  intros N. apply eq_true_iff_eq. rewrite !leads_in. unfold links_without. rewrite filter_In. simpl.
  destruct (EqP v u); [congruence|]. tauto.
Qed.

(** Theorem. The rows of all others are the same, also where keys are shared. *)
Theorem path_rows_of_others u v links links' rows rows' : v <> u ->
  differ_in u links links' rows rows' -> rows_by_path v links rows = rows_by_path v links' rows'.
Proof.
  intros N [L R].
  assert (E : forall ls rs, rows_by_path v ls rs =
     filter (fun r => leads (links_without u ls) (key r) v) (filter (fun r => negb (of_u_alone u ls r)) rs)).
  { intros ls rs. unfold rows_by_path. induction rs as [|r rs IH]; simpl; auto.
    rewrite IH. clear IH.
    destruct (of_u_alone u ls r) eqn:O; simpl.
    - destruct (leads ls (key r) v) eqn:Lv; auto. exfalso. rewrite leads_in in Lv.
      unfold of_u_alone in O. rewrite forallb_forall in O. specialize (O _ Lv). simpl in O.
      destruct (EqK (key r) (key r)); [|congruence]. destruct (EqP v u); congruence.
    - rewrite <- (leads_without u v ls (key r) N). reflexivity. }
  rewrite !E, L, R. reflexivity.
Qed.

(** Theorem. Where each key leads to one person, each row belongs to at most one person. *)
Theorem one_person_per_row links : (forall k u v, In (k, u) links -> In (k, v) links -> u = v) ->
  forall r rows u v, In r (rows_by_path u links rows) -> In r (rows_by_path v links rows) -> u = v.
Proof.
  intros H r rows u v Hu Hv. apply filter_In in Hu as [_ Hu]. apply filter_In in Hv as [_ Hv].
  rewrite leads_in in *. eauto.
Qed.

(** Theorem. And then a neighbour in u may hold any rows whose keys lead to u or to no person. *)
Theorem own_rows_are_of_u_alone links u r : (forall k v w, In (k, v) links -> In (k, w) links -> v = w) ->
  In (key r, u) links -> of_u_alone u links r = true.
Proof.
  intros H I. apply forallb_forall. intros (k, v) Hp. simpl.
  destruct (EqK k (key r)) as [->|]; auto. destruct (EqP v u) as [|N]; auto.
  exfalso. apply N. eapply H; eauto.
Qed.
End Paths.

(** ** Shared keys: counterexamples, checked *)

Section SharedKeys.
Let lead (links : list (nat * nat)) (k : nat) (u : nat) : bool := leads Nat.eq_dec Nat.eq_dec links k u.
Let owners (links : list (nat * nat)) (k : nat) : list nat :=
  nodup Nat.eq_dec (map snd (filter (fun p => fst p =? k) links)).

(** Rule "absent": a row whose key leads to two people is left out. *)
Let absent_rule (v : nat) (links : list (nat * nat)) (rows : list nat) : list nat :=
  filter (fun k => if length (owners links k) =? 1 then lead links k v else false) rows.

(** Rule "one of them": the row goes to the person who is named last. *)
Let one_rule (v : nat) (links : list (nat * nat)) (rows : list nat) : list nat :=
  filter (fun k => match owners links k with [] => false | u :: _ => u =? v end) rows.

(** Person 1 has a thousand rows under key 7. Person 2 adds one link with that key, and all of them disappear. *)
Theorem shared_keys_absent_leaks :
  exists u v links links' rows, v <> u /\ links_without Nat.eq_dec u links = links_without Nat.eq_dec u links' /\
    length (absent_rule v links rows) = 1000 /\ length (absent_rule v links' rows) = 0.
Proof. exists 2, 1, [(7, 1)], [(7, 2); (7, 1)], (repeat 7 1000). repeat split; auto. Qed.

Theorem shared_keys_one_leaks :
  exists u v links links' rows, v <> u /\ links_without Nat.eq_dec u links = links_without Nat.eq_dec u links' /\
    length (one_rule v links rows) = 1000 /\ length (one_rule v links' rows) = 0.
Proof. exists 2, 1, [(7, 1)], [(7, 2); (7, 1)], (repeat 7 1000). repeat split; auto. Qed.

(** And with the rule of the copy, a neighbour who takes a shared row along is not a neighbour in one person:
    another person loses that row. *)
Theorem shared_rows_are_of_both :
  exists u v links rows rows', v <> u /\
    rows' = filter (fun k => negb (lead links k u)) rows /\
    length (rows_by_path Nat.eq_dec Nat.eq_dec (fun k : nat => k) v links rows) = 1000 /\
    length (rows_by_path Nat.eq_dec Nat.eq_dec (fun k : nat => k) v links rows') = 0.
Proof. exists 2, 1, [(7, 2); (7, 1)], (repeat 7 1000), []. repeat split; auto. Qed.
End SharedKeys.
